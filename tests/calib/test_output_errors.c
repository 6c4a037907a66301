// SPDX-License-Identifier: Apache-2.0
/* Errors of the outputs alone, and cached outputs of the float network. */
#include "calib/metrics/measure.h"
#include "calib/statistics/collection.h"
#include "calib_case.h"

enum { SAMPLES = 24 };

static void calibrate(struct case_run *r, struct qc_graph **g)
{
    struct case_setup setup = CASE_SETUP;
    setup.samples = SAMPLES;
    *g = case_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
    MUST(case_calibrate(r, *g, QC_TEST_SOURCE "/datasets/digits_calib.h5", &setup, ST));
}

static struct qc_error errors_of(struct qc_known_outputs *known, uint64_t *keys, const struct qc_graph *real,
                                 const struct case_run *r, unsigned workers)
{
    const struct qc_settings o = {.workers = workers};
    struct qc_error e;
    cr_assert_eq(r->produced->output_count, 1);
    MUST(qc_output_errors(&e, known, keys, real, r->produced, r->data, &o, ST));
    return e;
}

static bool same(const struct qc_error *a, const struct qc_error *b)
{
    return a->count == b->count && a->signal == b->signal && a->noise == b->noise && a->cross == b->cross &&
           a->power == b->power && a->max_abs == b->max_abs;
}

Test(output_errors, are_those_of_the_measurement_of_all_layers)
{
    OWN(qc_graph) *g = NULL;
    CASE_RUN r;
    OWN(qc_measurement) *m = NULL;
    calibrate(&r, &g);
    MUST(qc_measure(&m, r.normalised, r.folded, r.data, CASE_WORKERS(1), ST));
    cr_assert_gt(m->outputs[0].noise, 0);
    for (unsigned workers = 1; workers <= 3; workers++) {
        const struct qc_error e = errors_of(NULL, NULL, r.normalised, &r, workers);
        cr_expect(same(&e, &m->outputs[0]), "%g of %g, not %g of %g", e.noise, e.signal, m->outputs[0].noise,
                  m->outputs[0].signal);
    }
}

/* With everything known no other float network makes a difference: here the quantized one stands for it. */
static void check_known(enum qc_known_place place)
{
    OWN(qc_known_outputs) *known = NULL;
    OWN(qc_graph) *g = NULL;
    CASE_RUN r;
    uint64_t keys[SAMPLES] = {0};
    calibrate(&r, &g);
    MUST(qc_known_outputs_new(&known, 1, place, NULL, ST));
    const struct qc_error first = errors_of(known, keys, r.normalised, &r, 2),
                          stranger = errors_of(NULL, NULL, r.produced, &r, 1);
    cr_assert_eq(stranger.noise, 0);
    for (size_t u = 0; u < SAMPLES; u++) cr_expect(keys[u] && qc_known_outputs_find(known, keys[u]), "unit %zu", u);
    const struct qc_error with_keys = errors_of(known, keys, r.produced, &r, 2),
                          by_content = errors_of(known, NULL, r.produced, &r, 1);
    cr_expect(same(&with_keys, &first) && same(&by_content, &first));
}

Test(output_errors, what_is_known_is_not_run_again)
{
    check_known(QC_KNOWN_IN_MEMORY);
}

Test(output_errors, outputs_in_files_are_known_too)
{
    check_known(QC_KNOWN_IN_FILES);
}

static int by_value(const void *x, const void *y)
{
    const uint64_t *a = x, *b = y;
    return (*a > *b) - (*a < *b);
}

/* Trials draw the 256 units of the lowest keys. */
Test(output_errors, of_many_units_those_are_kept_that_trials_draw)
{
    enum { UNITS = 5000, DRAWN = 256 };
    uint64_t keys[UNITS];
    size_t wanted = 0;
    for (uint64_t u = 0; u < UNITS; u++) {
        keys[u] = qc_stream_key(0, &u, sizeof u);
        wanted += qc_known_outputs_wanted(NULL, keys[u], UNITS);
        cr_expect(qc_known_outputs_wanted(NULL, keys[u], DRAWN));
    }
    cr_expect(wanted < 2 * DRAWN, "%zu", wanted);
    qsort(keys, UNITS, sizeof *keys, by_value);
    for (size_t u = 0; u < DRAWN; u++) cr_expect(qc_known_outputs_wanted(NULL, keys[u], UNITS), "number %zu", u);
}

Test(output_errors, collecting_leaves_the_outputs_of_the_float_network)
{
    OWN(qc_known_outputs) *known = NULL;
    OWN(qc_collection) *c = NULL;
    OWN(qc_graph) *g = NULL;
    CASE_RUN r, unbound = {0};
    uint64_t keys[SAMPLES] = {0};
    calibrate(&r, &g);
    MUST(case_simulate(&unbound, g, &CASE_SETUP, ST));
    MUST(qc_known_outputs_new(&known, 1, QC_KNOWN_IN_MEMORY, NULL, ST));
    const struct qc_collect_options o =
        FIELDS(.need = QC_NEED_EXTREMES, .keys = keys, .known = known, .settings = CASE_WORKERS(2));
    MUST(qc_collect(&c, NULL, unbound.simulated, &(const struct qc_named_values){0}, r.data, &o, ST));
    for (size_t u = 0; u < SAMPLES; u++) cr_expect(keys[u] && qc_known_outputs_find(known, keys[u]), "unit %zu", u);
    const struct qc_error alone = errors_of(NULL, NULL, r.normalised, &r, 1),
                          with = errors_of(known, keys, r.produced, &r, 1); /* which would have no error */
    cr_expect(same(&alone, &with));
}
