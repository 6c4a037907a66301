// SPDX-License-Identifier: Apache-2.0
/* Data of observers for each sample: series and states, filled in any order and by several threads. */
#include "base/pool.h"
#include "calib/statistics/collection.h"
#include "calib_case.h"

/* A plugin whose state is the text of how it came about: "0", "(0 1)", "((0 1) 2)". A value of -1 makes merging with it
 * fail. */
enum { TEXT = 4096 };

static void *begin(const double *options)
{
    return calloc(1, TEXT);
}

static int scan(void *state, const float *x, size_t n)
{
    snprintf(state, TEXT, n ? "%g" : "-", n ? (double)x[0] : 0);
    return 0;
}

static int merge(void *into, const void *later)
{
    char both[TEXT];
    if (strcmp(later, "-1") == 0 || strcmp(into, "-1") == 0) return 7;
    if (snprintf(both, TEXT, "(%s %s)", (const char *)into, (const char *)later) >= TEXT) return 8;
    memcpy(into, both, TEXT);
    return 0;
}

static int finish(const void *state, const struct qcalib_observer_request *request, double range[2])
{
    range[0] = request->min;
    range[1] = request->max;
    return 0;
}

static void end(void *state)
{
    free(state);
}

static const struct qcalib_observer text_plugin = {
    .begin = begin, .scan = scan, .merge = merge, .finish = finish, .end = end};
static const struct qc_observer text_observer = {.name = "text", .need = QC_NEED_VALUES, .plugin = &text_plugin};
static const struct qc_observer_values no_values;

struct filling {
    struct qc_per_sample *p;
    const size_t *order;
    size_t watches, units;
};

static bool fill(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct filling *f = user;
    size_t unit = f->order[item];
    for (size_t w = 0; w < f->watches; w++) {
        float x = (float)(unit + 100 * w);
        if (!qc_per_sample_take(f->p, w, unit, &x, 1, st)) return false;
    }
    return true;
}

/* Of units [from, to): halves at the largest power of two. */
static void expected_text(char *out, size_t from, size_t to, size_t plus)
{
    size_t half = 1;
    if (to - from == 1) {
        sprintf(out, "%zu", from + plus);
        return;
    }
    while (2 * half < to - from) half *= 2;
    char a[TEXT], b[TEXT];
    expected_text(a, from, from + half, plus);
    expected_text(b, from + half, to, plus);
    cr_assert_lt(snprintf(out, TEXT, "(%.2000s %.2000s)", a, b), TEXT);
}

Test(per_sample, states_merge_in_a_tree_that_only_the_samples_decide)
{
    enum { MOST = 61 };
    uint64_t random = 3;
    for (size_t units = 1; units <= MOST; units += units < 10 ? 1 : 17) {
        size_t order[MOST];
        char first[TEXT], second[TEXT], expected[2 * TEXT];
        for (int round = 0; round < 6; round++) {
            struct filling f = {.order = order, .watches = 2, .units = units};
            struct qc_quantizer_samples quantizer = {.series = {0}};
            for (size_t i = 0; i < units; i++) {
                size_t k = round ? (size_t)(test_random(&random) % (i + 1)) : i;
                order[i] = order[k];
                order[k] = i;
            }
            cr_assert(qc_per_sample_new(&f.p, &text_observer, &no_values, 2, ST) && f.p);
            struct qc_pool_options pool = {.workers = 1 + (unsigned)round % 3};
            MUST(qc_pool_run(units, fill, &f, &pool, ST));
            MUST(qc_per_sample_join(&quantizer, f.p, 0, ST) && qc_per_sample_join(&quantizer, f.p, 1, ST));
            static const float constant[] = {-5};
            MUST(qc_per_sample_add_constant(&quantizer, f.p, constant, 1, ST));
            expected_text(first, 0, units, 0);
            expected_text(second, 0, units, 100);
            snprintf(expected, sizeof expected, "((%.2000s %.2000s) -5)", first, second);
            cr_assert_str_eq(quantizer.state.state, expected);
            qc_quantizer_samples_free(&quantizer);
            qc_per_sample_free(f.p);
        }
    }
}

Test(per_sample, a_merge_that_fails_is_an_error_and_leaks_nothing)
{
    struct qc_per_sample *p;
    float good = 1, bad = -1;
    MUST(qc_per_sample_new(&p, &text_observer, &no_values, 1, ST));
    cr_assert(qc_per_sample_take(p, 0, 0, &good, 1, ST) && qc_per_sample_take(p, 0, 3, &bad, 1, ST));
    FAILS(qc_per_sample_take(p, 0, 2, &good, 1, ST), "plugin 'text': merge failed with code 7");
    qc_per_sample_free(p);
}

/* A table filled part by part, in any order of samples. */
Test(per_sample, series_are_in_sample_order_and_join_by_sample)
{
    struct qc_extremes_table *all, *part;
    struct qc_per_sample *none;
    struct qc_series series = {0};
    static const uint64_t numbers[] = {9, 2, 30};
    static const float x[2][3][2] = {{{1, 2}, {-3, 4}, {NAN, NAN}}, {{-1, 0}, {0, 0}, {NAN, 8}}},
                       constant[] = {1, 2.5f};
    MUST(qc_extremes_table_new(&all, 2, 0, ST));
    for (size_t u = 0; u < 3; u++) {
        MUST(qc_extremes_table_new(&part, 2, 1, ST));
        part->samples[0] = numbers[u];
        for (size_t v = 0; v < 2; v++) {
            const struct qc_extremes e = qc_extremes_of(x[v][u], 2, 0);
            part->ends[v] = (struct qc_ends){.min = e.min, .max = e.max};
        }
        MUST(qc_extremes_table_add(all, part, ST));
        qc_extremes_table_free(part);
    }
    cr_assert(qc_extremes_table_join(&series, all, 0, ST) && qc_extremes_table_join(&series, all, 1, ST));
    cr_assert_eq(series.count, 3);
    const struct qc_extremes *e = series.items;
    MUST_HOLD(e[0].sample == 2 && e[0].min == -3 && e[0].max == 4, e[1].sample == 9 && e[1].min == -1 && e[1].max == 2,
              e[2].sample == 30 && e[2].min == 8 && e[2].max == 8);
    MUST(qc_series_add_constant(&series, constant, 2, ST));
    cr_assert(series.items[1].max == 2.5f && series.items[2].min == 1);
    free((void *)(uintptr_t)series.items);
    series = (struct qc_series){0};
    cr_assert(qc_series_add_constant(&series, constant, 2, ST) && series.count == 1 && series.items[0].max == 2.5f);
    free((void *)(uintptr_t)series.items);
    qc_extremes_table_free(all);
    cr_assert(qc_extremes_table_bytes(2, 3) == 72);
    cr_assert(qc_per_sample_new(&none, qc_observer_find("mse"), &no_values, 2, ST) && !none);
    cr_assert(qc_per_sample_new(&none, qc_observer_find("ema"), &no_values, 2, ST) && !none);
}

/* The same for any number of workers; ema on the samples in order is its formula, here on the input. */
Test(per_sample, ema_over_a_data_set_is_its_formula)
{
    OWN(qc_graph) *g = case_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
    struct case_setup setup = CASE_SETUP;
    struct qc_dataset_scratch *scratch = NULL;
    setup.method = "ema:momentum=0.5";
    setup.samples = 20;
    for (setup.workers = 1; setup.workers <= 4; setup.workers += 3) {
        CASE_RUN r;
        MUST(case_calibrate(&r, g, QC_TEST_SOURCE "/datasets/digits_calib.h5", &setup, ST));
        double lo = 0, hi = 0;
        float x[64];
        MUST(qc_dataset_scratch_new(&scratch, ST));
        for (size_t u = 0; u < 20; u++) {
            cr_assert(qc_dataset_elements(r.data, 0) == 64 && qc_dataset_read(x, r.data, 0, u, scratch, ST));
            float min = x[0], max = x[0];
            for (size_t i = 0; i < 64; i++) {
                min = fminf(min, x[i]);
                max = fmaxf(max, x[i]);
            }
            lo = u ? 0.5 * lo + 0.5 * (double)min : (double)min;
            hi = u ? 0.5 * hi + 0.5 * (double)max : (double)max;
        }
        const struct qc_choice *c = &r.calibration->choices[case_quantizer(r.simulated, "input")];
        cr_assert(c->range.lo == lo && c->range.hi == hi, "[%g, %g], expected [%g, %g]", c->range.lo, c->range.hi, lo,
                  hi);
        MUST_HOLD(strcmp(c->method, "ema") == 0, isinf(c->known_lo) && c->curve && c->curve->count == 0);
        qc_dataset_scratch_free(scratch);
    }
}
