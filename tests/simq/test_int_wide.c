// SPDX-License-Identifier: Apache-2.0
/* Accumulators against sums in int64, with types of 8 and 16 bits and all zero points: exact in integers with all
   instructions, and beyond 2^24 exact in the simulation too, but for the float32 that holds the result. */
#include "random_graph.h"
#include "simq/plan/plan.h"
#include "tests/check.h"

enum { ROWS = 11, K = 701, N = 37, TOP = INT32_MAX - 127 /* the largest that float32 holds */ };

struct types {
    enum qc_dtype data, weight;
    int32_t zero, weight_zero;
    int32_t least, most; /* of weights, chosen so that sums fit an int32, or do not */
};

static const struct types types[] = {
    {QC_U8, QC_I8, 3, 0, -127, 127},
    {QC_I8, QC_I8, -5, 0, -128, 127},
    {QC_U8, QC_I8, 255, -7, -128, 127},
    {QC_I8, QC_U8, 127, 200, 0, 255},
    {QC_U16, QC_I8, 40000, 0, -20, 20},
    {QC_I16, QC_I8, -32768, 9, -20, 20},
    {QC_I8, QC_I16, 0, 0, -12000, 12000},
    {QC_U4, QC_I4, 15, -8, -8, 7},
    {QC_I16, QC_I16, 77, 0, -30, 30},
    {QC_U16, QC_U8, 0, 128, 110, 140},
    {QC_I8, QC_U16, 5, 32768, 32000, 33500},
    /* Partial sums, then sums too, leave an int32: they are exact, and stay at the ends of the range. */
    {QC_U16, QC_I8, 20000, 0, -127, 127},
    {QC_U16, QC_I8, 0, 0, 90, 127},
    {QC_I16, QC_I8, 32767, 0, 90, 127},
    {QC_I16, QC_I16, 100, 0, -32767, 32767},
    {QC_I16, QC_I16, -32768, 0, 20000, 32767},
};

static qc_id add(struct qc_graph *g, enum qc_op op, const qc_id *in, unsigned count, qc_id qparams,
                 struct qc_status *st)
{
    const struct qc_node_def d = {.op = op, .input_count = count, .inputs = in, .qparams = qparams};
    const qc_id v = qc_graph_add(g, &d, st);
    cr_assert(v, "%s", st->message);
    return v;
}

static void check(size_t *lost, size_t which, bool simulated, enum qc_isa isa)
{
    const struct types *t = &types[which];
    const struct qc_dtype_info *info = qc_dtype_info(t->data);
    struct random_source random = {which};
    struct qc_status st = QC_STATUS_INIT;
    OWN(qc_graph) *g = qc_graph_new(&st);
    const struct qc_shape rows = qc_shape_of(2, (const int64_t[]){ROWS, K}),
                          columns = qc_shape_of(2, (const int64_t[]){K, N});
    OWN(qc_tensor) *w = qc_tensor_new(QC_F32, &columns, &st);
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    QC_FREED int32_t *x = calloc((size_t)ROWS * K, sizeof *x);
    const struct qc_plan_options options = {.isa = isa};
    g->simulated = simulated;
    for (int i = 0; i < ROWS * K; i++) x[i] = (int32_t)random_int(&random, info->lo, info->hi) - t->zero;
    for (int i = 0; i < K * N; i++)
        ((float *)w->data)[i] = (float)(random_int(&random, t->least, t->most) - t->weight_zero);
    const qc_id xs = test_quantizer(g, "x", t->data, false, 1, t->zero),
                ws = test_quantizer(g, "w", t->weight, true, 1, t->weight_zero);
    const qc_id real = qc_graph_add_input(g, "data", QC_F32, &rows, &st),
                constant = qc_graph_add_constant(g, "weights", w, &st);
    const qc_id in[2] = {add(g, QC_OP_Quantize, &real, 1, xs, &st), add(g, QC_OP_Quantize, &constant, 1, ws, &st)};
    const qc_id y = add(g, QC_OP_MatMul, in, 2, qc_graph_add_product(g, xs, ws, &st), &st);
    cr_assert(qc_graph_add_output(g, "y", y, &st) && qc_plan_new(&plan, g, &rows, &options, &st) &&
                  qc_runner_new(&r, plan, &st),
              "%s", st.message);
    const struct qc_view v = qc_runner_input(r, 0);
    for (int i = 0; i < ROWS * K; i++) ((float *)v.data)[i] = (float)x[i];
    cr_assert(qc_runner_run(r, NULL, NULL, &st), "%s", st.message);
    const struct qc_view out = qc_runner_output(r, 0);
    cr_assert_eq(out.dtype, simulated ? QC_F32 : QC_I32);
    size_t wrong = 0, left = 0;
    for (int m = 0; m < ROWS; m++)
        for (int n = 0; n < N; n++) {
            int64_t sum = 0;
            for (int k = 0; k < K; k++) sum += (int64_t)x[m * K + k] * (int64_t)((const float *)w->data)[k * N + n];
            left += sum < INT32_MIN || sum > TOP;
            sum = sum < INT32_MIN ? INT32_MIN : sum > TOP ? TOP : sum;
            wrong += simulated ? ((const float *)out.data)[m * N + n] != (float)sum
                               : ((const int32_t *)out.data)[m * N + n] != sum;
        }
    cr_expect_eq(wrong, 0, "case %zu, %s, %s: %zu of %d sums are wrong", which, simulated ? "simulated" : "produced",
                 qc_isa_name(isa), wrong, ROWS * N);
    uint64_t counted = 0;
    for (size_t k = 0; k < qc_plan_overflow_count(plan); k++) counted += qc_runner_sums(r, k)->overflows;
    cr_expect_eq(counted, left, "case %zu: %zu sums left the range, %zu are counted", which, left, (size_t)counted);
    *lost += left;
}

Test(integer, accumulators_are_exact)
{
    size_t lost = 0;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        for (enum qc_isa isa = QC_ISA_PLAIN; isa < QC_ISA_COUNT; isa++) {
            check(&lost, i, false, isa);
            check(&lost, i, true, isa);
        }
    cr_expect_gt(lost, 0); /* else the last cases test nothing */
}

/* Sums of 16 bits over more elements than float32 can add exactly, and over more than int32 can. */
static void check_mean(enum qc_op op, enum qc_dtype t, int32_t zero, int64_t side, bool simulated)
{
    OWN(qc_graph) *g = qc_graph_new(ST);
    const struct qc_shape shape = qc_shape_of(4, (const int64_t[]){1, 3, side, side});
    const struct qc_dtype_info *info = qc_dtype_info(t);
    const int64_t axes[] = {2, 3}, n = side * side;
    const struct qc_attr attr = QC_INTS("axes", 2, axes);
    struct random_source random = {(uint64_t)side};
    OWN(qc_plan) *plan = NULL;
    OWN(qc_runner) *r = NULL;
    int64_t sum[3] = {0};
    g->simulated = simulated;
    const qc_id xs = test_quantizer(g, "x", t, false, 1, zero), ys = test_quantizer(g, "y", QC_I16, false, 1, 0);
    MUST(qc_graph_bind_quantizer(g, ys, 1, (const float[]){3}, (const int32_t[]){0}, ST));
    const qc_id real = qc_graph_add_input(g, "data", QC_F32, &shape, ST), x = add(g, QC_OP_Quantize, &real, 1, xs, ST);
    const struct qc_node_def d = FIELDS(.op = op, .input_count = 1, .inputs = &x, .qparams = ys,
                                        .attr_count = op == QC_OP_ReduceMean ? 1 : 0, .attrs = &attr);
    const qc_id y = qc_graph_add(g, &d, ST), back = add(g, QC_OP_Dequantize, &y, 1, 0, ST);
    MUST(qc_graph_add_output(g, "y", back, ST) && qc_plan_new(&plan, g, &shape, NULL, ST) &&
         qc_runner_new(&r, plan, ST));
    const struct qc_view v = qc_runner_input(r, 0);
    for (int64_t i = 0; i < 3 * n; i++) { /* near the top, so that sums are large */
        const int64_t q = random_int(&random, info->hi - 3001, info->hi);
        ((float *)v.data)[i] = (float)(q - zero);
        sum[i / n] += q - zero;
    }
    MUST(qc_runner_run(r, NULL, NULL, ST));
    const struct qc_view out = qc_runner_output(r, 0);
    for (int c = 0; c < 3; c++) {
        float q = nearbyintf((float)sum[c] * (1 / (3 * (float)n)));
        q = q > 32767 ? 32767 : q;
        cr_expect_eq(((const float *)out.data)[c], q * 3, "%s of %s, %lld elements, %s: %g instead of %g",
                     qc_op_info(op)->name, info->name, (long long)n, simulated ? "simulated" : "produced",
                     (double)((const float *)out.data)[c], (double)q * 3);
    }
}

/* Over the samples, behind a pool: data with the channels last in memory, and a result of one dimension less with the
 * channels first, so that its elements lie apart. */
Test(integer, mean_that_drops_a_dimension_takes_the_zero_point_off)
{
    enum { SAMPLES = 3, C = 2, H = 4, W = 5, OUT = C * H * W };
    static const enum qc_dtype stored[] = {QC_U8, QC_I8, QC_U16, QC_I16};
    for (size_t k = 0; k < sizeof stored / sizeof *stored; k++) {
        OWN(qc_graph) *g = qc_graph_new(ST);
        const struct qc_shape shape = qc_shape_of(4, (const int64_t[]){SAMPLES, C, H, W});
        const int32_t zero = 11;
        const struct qc_attr attrs[] = {QC_INTS("axes", 1, ((const int64_t[]){0})), QC_INT("keepdims", 0)};
        struct random_source random = {k + 1};
        OWN(qc_plan) *plan = NULL;
        OWN(qc_runner) *r = NULL;
        int64_t sum[OUT] = {0};
        const qc_id xs = test_quantizer(g, "x", stored[k], false, 1, zero),
                    ys = test_quantizer(g, "y", QC_I16, false, 1, 0);
        MUST(qc_graph_bind_quantizer(g, ys, 1, (const float[]){1}, (const int32_t[]){0}, ST));
        const struct qc_attr kernel = QC_INTS("kernel_shape", 2, ((const int64_t[]){1, 1}));
        const qc_id real = qc_graph_add_input(g, "data", QC_F32, &shape, ST),
                    q = add(g, QC_OP_Quantize, &real, 1, xs, ST);
        const struct qc_node_def pool = {
            .op = QC_OP_MaxPool, .input_count = 1, .inputs = &q, .attr_count = 1, .attrs = &kernel};
        const qc_id x = qc_graph_add(g, &pool, ST);
        const struct qc_node_def d = {
            .op = QC_OP_ReduceMean, .input_count = 1, .inputs = &x, .qparams = ys, .attr_count = 2, .attrs = attrs};
        const qc_id y = qc_graph_add(g, &d, ST), back = add(g, QC_OP_Dequantize, &y, 1, 0, ST);
        MUST(qc_graph_add_output(g, "y", back, ST) && qc_plan_new(&plan, g, &shape, NULL, ST) &&
             qc_runner_new(&r, plan, ST));
        const struct qc_view v = qc_runner_input(r, 0), out = qc_runner_output(r, 0);
        for (int i = 0; i < SAMPLES * OUT; i++) {
            const int64_t level = random_int(&random, 20, 120);
            int64_t at = 0;
            for (int axis = 3, rest = i; axis >= 0; rest /= (int)shape.dim[axis], axis--)
                at += rest % shape.dim[axis] * v.stride[axis];
            ((float *)v.data)[at] = (float)(level - zero);
            sum[i % OUT] += level - zero;
        }
        MUST(qc_runner_run(r, NULL, NULL, ST));
        for (int i = 0; i < OUT; i++) {
            const int64_t at = i / (H * W) * out.stride[0] + i / W % H * out.stride[1] + i % W * out.stride[2];
            const float want = nearbyintf((float)sum[i] * (1 / (float)SAMPLES)), got = ((const float *)out.data)[at];
            cr_expect_eq(got, want, "%s, element %d: %g instead of %g", qc_dtype_info(stored[k])->name, i, (double)got,
                         (double)want);
        }
    }
}

Test(integer, means_of_16_bits_are_exact)
{
    static const int64_t sides[] = {7, 40, 190, 260};
    for (size_t i = 0; i < sizeof sides / sizeof *sides; i++)
        for (int simulated = 0; simulated < 2; simulated++) {
            check_mean(QC_OP_GlobalAveragePool, QC_U16, 0, sides[i], simulated);
            check_mean(QC_OP_ReduceMean, QC_U16, 77, sides[i], simulated);
            check_mean(QC_OP_ReduceMean, QC_I16, -32768, sides[i], simulated);
            check_mean(QC_OP_GlobalAveragePool, QC_I16, 0, sides[i], simulated);
        }
}
