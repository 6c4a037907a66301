// SPDX-License-Identifier: Apache-2.0
/* Scales of weights that keep narrow accumulators from overflowing. */
#include "calib/accumulator/fit_accumulator.h"
#include "calib/metrics/accuracy.h"
#include "calib/metrics/measure.h"
#include "calib/weights/round_weights.h"
#include "calib_case.h"
#include "graph/core/verify.h"

static const char *const calib = QC_TEST_SOURCE "/datasets/digits_calib.h5";
static const char *const test = QC_TEST_SOURCE "/datasets/digits_test.h5";

/* The shipped model: convolutions of three kinds and two dense layers. */
static void fit(struct case_run *r, struct qc_graph **model, enum qc_accumulator_bound bound, unsigned bits,
                bool per_channel, unsigned workers)
{
    struct case_setup setup = CASE_SETUP;
    const struct qc_settings o = {.plan = {.accumulator = {.bits = bits}}, .bound = bound, .workers = workers};
    setup.scheme.weight.per_channel = per_channel;
    setup.samples = 50;
    setup.moments = true;
    *model = case_model(QC_TEST_SOURCE "/datasets/digits_cnn.onnx");
    MUST(case_calibrate(r, *model, calib, &setup, ST));
    MUST(qc_fit_accumulators(r->calibration, r->simulated, r->data, &o, ST));
    MUST(qc_graph_verify(r->simulated, ST));
}

static unsigned proven(const struct qc_graph *g)
{
    unsigned most = 0, bits = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        MUST(qc_accumulator_bits(&bits, g, id, ST));
        most = bits > most ? bits : most;
    }
    return most;
}

/* Results that overflow in the simulated graph; of those that could, results[0]. */
static uint64_t overflows(const struct case_run *r, const char *path, struct qc_accumulator accumulator, double *top1)
{
    OWN(qc_dataset) *data = case_open(r->simulated, path, true);
    const struct qc_selection some = {.samples = qc_dataset_samples(data) / test_one_of(1, 4)};
    struct qc_overflows seen;
    struct qc_metric m;
    uint64_t all = 0;
    const struct qc_plan_options how = {.accumulator = accumulator};
    const struct qc_evaluation e = {.graph = r->simulated, .data = data, .how = &how, .settings = CASE_WORKERS(2)};
    MUST(qc_dataset_select(data, &some, ST));
    MUST(qc_evaluate_sums(&m, &seen, &e, test_arena(), ST));
    for (size_t k = 0; k < seen.count; k++) {
        const struct qc_layer_overflow *l = &seen.layers[k];
        cr_expect(l->sums.results > 0 && l->sums.overflows <= l->sums.results &&
                      (l->bits > accumulator.bits) == (l->sums.overflows > 0),
                  "%s: %u bits, %llu overflows", l->name, l->bits, (unsigned long long)l->sums.overflows);
        cr_expect(l->name && qc_overflow_of(&seen, l->node) == l);
        all += l->sums.overflows;
    }
    if (top1) *top1 = m.value;
    return all;
}

static void expect_one_way(const struct case_run *before, const struct case_run *after, bool more)
{
    size_t raised = 0;
    for (qc_id s = 1; s <= before->simulated->qparams_count; s++) {
        const struct qc_qparams *x = &before->simulated->qparams_of[s], *y = &after->simulated->qparams_of[s];
        size_t here = 0;
        if (x->kind != QC_QPARAMS_QUANTIZER) continue;
        cr_assert_eq(x->count, y->count);
        for (size_t i = 0; i < x->count; i++) {
            cr_expect(y->scale[i] >= x->scale[i], "a scale of '%s' fell", x->name);
            here += y->scale[i] > x->scale[i];
        }
        cr_expect(x->is_weight || !here, "a scale of the activation '%s' changed", x->name);
        cr_expect_eq(here, after->calibration->choices[s].raised);
        raised += here;
    }
    cr_expect_eq(raised > 0, more);
}

Test(fit_accumulator, proves_it)
{
    for (int per_channel = 0; per_channel < 2; per_channel++) {
        struct case_run r, plain;
        struct qc_graph *g, *h;
        fit(&plain, &h, QC_BOUND_PROVEN, 31, per_channel, 1);
        cr_assert_gt(proven(plain.simulated), 15);
        for (unsigned bits = 10; bits <= 16; bits += 3) {
            fit(&r, &g, QC_BOUND_PROVEN, bits, per_channel, 2);
            cr_expect_leq(proven(r.simulated), bits, "%u bits for %u", proven(r.simulated), bits);
            expect_one_way(&plain, &r, true);
            case_free(&r);
            qc_graph_free(g);
        }
        case_free(&plain);
        qc_graph_free(h);
    }
}

/* Compensated weights and corrected biases are within the proof that was made for the nearest ones; by themselves they
 * are not. */
Test(fit_accumulator, a_proof_holds_after_compensated_rounding)
{
    for (int per_channel = 0; per_channel < 2; per_channel++)
        for (unsigned bits = 10; bits <= 16; bits += 3) {
            CASE_RUN r;
            struct qc_graph *g, *new[2];
            struct qc_weight_rounding *w[2];
            fit(&r, &g, QC_BOUND_PROVEN, bits, per_channel, 2);
            size_t bounded = 0, compensated = 0;
            for (int k = 0; k < 2; k++) {
                struct qc_settings settings = case_rounds;
                settings.workers = 2;
                settings.plan.accumulator.bits = k ? bits : 0;
                const struct qc_round_weights_options o = {.settings = &settings};
                MUST(qc_round_weights(&w[k], &new[k], r.simulated, r.second_moments, &o, ST));
                MUST(qc_graph_verify(new[k], ST));
            }
            for (size_t i = 0; i < w[1]->count; i++) {
                const struct qc_rounded_weights *l = &w[1]->layers[i];
                bounded += l->bounded;
                compensated += l->outputs - l->nearest;
                cr_expect(l->bounded <= l->outputs && w[0]->layers[i].bounded == 0);
            }
            cr_expect_leq(proven(new[1]), bits, "%u bits for %u", proven(new[1]), bits);
            cr_expect_gt(proven(new[0]), bits,
                         "no sum of the unbounded weights needs more than %u bits: the case shows nothing", bits);
            cr_expect(bounded > 0 && compensated > 0, "%zu outputs bounded, %zu compensated", bounded, compensated);
            for (int k = 0; k < 2; k++) {
                qc_graph_free(new[k]);
                qc_weight_rounding_free(w[k]);
            }
            qc_graph_free(g);
        }
}

Test(fit_accumulator, costs_nothing_where_all_fits)
{
    CASE_RUN r, plain;
    OWN(qc_graph) *g = NULL, *h = NULL;
    fit(&plain, &h, QC_BOUND_PROVEN, 31, true, 1);
    fit(&r, &g, QC_BOUND_AUTO, 24, true, 1);
    expect_one_way(&plain, &r, false);
    cr_expect_eq(r.calibration->warnings.count, plain.calibration->warnings.count);
}

Test(fit_accumulator, what_is_seen_does_not_overflow_and_keeps_the_accuracy)
{
    static const struct qc_accumulator wrap = {.bits = 13, .overflow = QC_OVERFLOW_WRAP};
    CASE_RUN r, plain, proof;
    OWN(qc_graph) *g = NULL, *h = NULL, *k = NULL;
    double before, after, dear;
    fit(&plain, &h, QC_BOUND_SEEN, 31, true, 1);
    fit(&r, &g, QC_BOUND_SEEN, wrap.bits, true, 1);
    fit(&proof, &k, QC_BOUND_PROVEN, 10, true, 1);
    cr_expect_gt(overflows(&plain, test, wrap, &before), 1000);
    cr_expect_lt(overflows(&r, test, wrap, &after), 100); /* of samples that were not calibrated with */
    cr_expect(before < 0.3 && after > 0.95, "top-1 %.3f without, %.3f with", before, after);
    cr_expect_eq(overflows(&proof, test, (struct qc_accumulator){.bits = 10, .overflow = QC_OVERFLOW_SATURATE}, &dear),
                 0);
    expect_one_way(&plain, &r, true);
}

Test(fit_accumulator, is_the_same_for_any_number_of_workers)
{
    CASE_RUN one, many;
    OWN(qc_graph) *g = NULL, *h = NULL;
    fit(&one, &g, QC_BOUND_AUTO, 15, true, 1);
    fit(&many, &h, QC_BOUND_AUTO, 15, true, 3);
    for (qc_id s = 1; s <= one.simulated->qparams_count; s++) {
        const struct qc_qparams *x = &one.simulated->qparams_of[s], *y = &many.simulated->qparams_of[s];
        cr_expect(x->count == y->count && memcmp(x->scale, y->scale, x->count * sizeof *x->scale) == 0, "'%s'",
                  x->name);
    }
}

/* Both operands come from the data: nothing can be raised, and that is said. */
Test(fit_accumulator, products_of_activations_are_told)
{
    float values[4][16];
    CASE_FILE path[CASE_PATH];
    for (int i = 0; i < 64; i++) values[i / 16][i % 16] = (float)(i % 7);
    const struct case_data set = {"x", QC_F32, values, 2, {4, 4}};
    OWN(qc_graph) *g = test_graph(
        "graph \"g\" opset 0 simulated\nqparams @1 quantizer \"x\" u8 asymmetric bound scale 0.0625 zero 0\n"
        "qparams @2 product @1 @1\ninput %1 \"x\" f32[N,4,4]\n%2 : f32[N,4,4] @1 = simulated_quantize(%1)\n"
        "%3 \"a\" : f32[N,4,4] @2 axis 2 = MatMul \"both\"(%2, %2)\n%4 \"y\" : f32[N,4,4] = simulated_dequantize(%3)\n"
        "output \"y\" %4\n");
    case_write(path, &set, 1, 4);
    OWN(qc_dataset) *data = case_open(g, path, false);
    struct qc_calibration c = {.arena = qc_arena_new(), .qparams_count = g->qparams_count};
    c.choices = QC_NEW_ARRAY(c.arena, struct qc_choice, c.qparams_count + 1, ST);
    const struct qc_settings o = {.plan = {.accumulator = {.bits = 12}}, .workers = 1};
    MUST(qc_fit_accumulators(&c, g, data, &o, ST));
    cr_assert_eq(c.warnings.count, 1);
    cr_expect(strstr(c.warnings.lines[0], "'both' overflows") &&
                  strstr(c.warnings.lines[0], "both operands come from the data"),
              "%s", c.warnings.lines[0]);
    qc_arena_free(c.arena);
}
