// SPDX-License-Identifier: Apache-2.0
/* Narrow accumulators, computed by hand: order of additions, wrapping, saturation, and counts. */
#include "simq/plan/plan.h"
#include "tests/check.h"

struct sum {
    const char *name;
    unsigned bits;
    enum qc_overflow overflow;
    int64_t data[4], weights[4]; /* less their zero points; that of the data is 0 */
    int32_t bias;
    double result;
    uint64_t overflows;
    int32_t zero; /* of the weights */
};

/* 8 bits: -128 to 127. */
static const struct sum sums[] = {
    {"fits", 8, QC_OVERFLOW_SATURATE, {10, 10, 10, 10}, {5, -5, 5, 5}, 7, 107, 0, 0},
    {"wraps and comes back", 8, QC_OVERFLOW_WRAP, {10, 10, 10, 10}, {10, 10, -10, -5}, 0, 50, 1, 0},
    {"saturates and is short", 8, QC_OVERFLOW_SATURATE, {10, 10, 10, 10}, {10, 10, -10, -5}, 0, -23, 1, 0},
    {"order matters", 8, QC_OVERFLOW_SATURATE, {10, 10, 10, 10}, {-10, 10, 10, -5}, 0, 50, 0, 0},
    {"wraps", 8, QC_OVERFLOW_WRAP, {10, 10, 0, 0}, {10, 10, 1, 1}, 0, -56, 1, 0},
    {"saturates at the bottom", 8, QC_OVERFLOW_SATURATE, {10, 10, 0, 0}, {-10, -10, 1, 1}, 0, -128, 1, 0},
    {"bias alone", 8, QC_OVERFLOW_SATURATE, {0, 0, 0, 0}, {1, 1, 1, 1}, 200, 127, 1, 0},
    {"bias comes first", 8, QC_OVERFLOW_SATURATE, {10, 0, 0, 0}, {-10, 1, 1, 1}, 200, 27, 1, 0},
    {"one more bit", 9, QC_OVERFLOW_SATURATE, {10, 10, 10, 10}, {10, 10, -10, -5}, 0, 50, 0, 0},
    {"32 bits", 32, QC_OVERFLOW_SATURATE, {10, 10, 10, 10}, {10, 10, -10, -5}, 0, 50, 0, 0},
    {"is watched", 8, QC_OVERFLOW_WATCH, {10, 10, 10, 10}, {10, 10, -10, -5}, 0, 50, 1, 0},
    {"is watched at the bias", 8, QC_OVERFLOW_WATCH, {10, 0, 0, 0}, {-10, 1, 1, 1}, 200, 100, 1, 0},
    /* Stored as zeros: without the zero point nothing could overflow. */
    {"weights with a zero point", 8, QC_OVERFLOW_SATURATE, {3, 3, 3, 3}, {25, 25, 25, 25}, 0, 127, 1, -25},
    {"by default", 0, QC_OVERFLOW_WRAP, {10, 10, 10, 10}, {10, 10, -10, -5}, 0, 50, 0, 0},
};

static qc_id add(struct qc_graph *g, enum qc_op op, unsigned count, const qc_id *in, qc_id qparams,
                 struct qc_status *st)
{
    const struct qc_node_def d = {.op = op, .input_count = count, .inputs = in, .qparams = qparams};
    const qc_id v = qc_graph_add(g, &d, st);
    cr_assert(v, "%s", st->message);
    return v;
}

static qc_id constant(struct qc_graph *g, const struct qc_shape *shape, const float *data, struct qc_status *st)
{
    OWN(qc_tensor) *t = qc_tensor_of(QC_F32, shape, data, st);
    const qc_id v = qc_graph_add_constant(g, NULL, t, st);
    return v;
}

/* convolution: four channels of one pixel; else a row of a matrix. */
static void check(const struct sum *s, bool simulated, bool convolution)
{
    struct qc_status st = QC_STATUS_INIT;
    OWN(qc_graph) *g = qc_graph_new(&st);
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    float weights[4];
    const float bias = (float)s->bias;
    const struct qc_shape row = convolution ? qc_shape_of(4, (const int64_t[]){1, 4, 1, 1})
                                            : qc_shape_of(2, (const int64_t[]){1, 4}),
                          column = convolution ? row : qc_shape_of(2, (const int64_t[]){4, 1}),
                          one = qc_shape_of(1, (const int64_t[]){1});
    g->simulated = simulated;
    for (int i = 0; i < 4; i++) weights[i] = (float)s->weights[i];
    const qc_id x = qc_graph_add_input(g, "x", QC_F32, &row, &st), w = constant(g, &column, weights, &st),
                b = constant(g, &one, &bias, &st);
    const qc_id xs = test_quantizer(g, "xs", QC_I8, false, 1, 0), ws = test_quantizer(g, "ws", QC_I8, true, 1, s->zero),
                product = qc_graph_add_product(g, xs, ws, &st);
    const qc_id in[3] = {add(g, QC_OP_Quantize, 1, &x, xs, &st), add(g, QC_OP_Quantize, 1, &w, ws, &st),
                         add(g, QC_OP_Quantize, 1, &b, product, &st)};
    const qc_id acc = add(g, convolution ? QC_OP_Conv : QC_OP_Gemm, 3, in, product, &st),
                y = add(g, QC_OP_Dequantize, 1, &acc, 0, &st);
    const struct qc_plan_options options = {.accumulator = {.bits = s->bits, .overflow = s->overflow}};
    cr_assert(qc_graph_add_output(g, "y", y, &st) && qc_plan_new(&plan, g, &row, &options, &st) &&
                  qc_runner_new(&r, plan, &st),
              "%s: %s", s->name, st.message);
    const struct qc_view data = qc_runner_input(r, 0);
    for (int i = 0; i < 4; i++) ((float *)data.data)[i] = (float)s->data[i];
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
    uint64_t overflows = 0;
    for (size_t k = 0; k < qc_plan_overflow_count(plan); k++) {
        const struct qc_sums *seen = qc_runner_sums(r, k);
        int64_t sum = s->bias, lo = 0, hi = 0;
        for (int i = -1; i < 4; i++) {
            if (i >= 0) sum += s->data[i] * s->weights[i];
            lo = sum < lo ? sum : lo;
            hi = sum > hi ? sum : hi;
        }
        overflows += seen->overflows;
        cr_expect_eq(g->nodes[qc_plan_overflow_node(plan, k)].op, convolution ? QC_OP_Conv : QC_OP_Gemm);
        cr_assert_eq(qc_plan_overflow_channels(plan, k), 1);
        cr_expect(seen->channels == 1 && seen->results == 1 && seen->lowest[0] == lo && seen->highest[0] == hi,
                  "%s: sums from %lld to %lld, not %lld to %lld", s->name, (long long)seen->lowest[0],
                  (long long)seen->highest[0], (long long)lo, (long long)hi);
    }
    cr_expect_eq((double)*(const float *)qc_runner_output(r, 0).data, s->result, "%s: %g", s->name,
                 (double)*(const float *)qc_runner_output(r, 0).data);
    cr_expect_eq(overflows, s->overflows, "%s: %llu", s->name, (unsigned long long)overflows);
}

Test(accumulator, adds_in_order_and_wraps_or_saturates)
{
    for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
        for (int form = 0; form < 4; form++) check(&sums[i], form & 1, form & 2);
}

Test(accumulator, of_a_width_that_makes_no_sense_is_refused)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    struct qc_plan *plan;
    const struct qc_plan_options one = {.accumulator = {.bits = 1}}, many = {.accumulator = {.bits = 33}};
    cr_expect(!qc_plan_new(&plan, g, NULL, &one, ST) && failure.code == QC_USAGE);
    cr_expect(!qc_plan_new(&plan, g, NULL, &many, ST) && failure.code == QC_USAGE);
}
