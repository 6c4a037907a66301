// SPDX-License-Identifier: Apache-2.0
/* Weights shared by several nodes are packed once; large ones are packed by all workers. */
#include <signal.h>
#include <sys/resource.h>

#include "base/pool.h"
#include "simq/core/convert.h"
#include "simq/kernels/integer/int_mac.h"
#include "simq/kernels/integer/tile.h"
#include "simq/plan/plan.h"
#include "tests/check.h"
#include "tests/graph_reader/graph_reader.h"

/* Runs a graph of one input once, and frees it. y: its first `count` results. Returns the bytes that the plan holds. */
static size_t run_once(float *y, size_t count, struct qc_graph *g, const struct qc_shape *shape,
                       const struct qc_plan_options *how, const float *x, struct qc_status *st)
{
    OWN(qc_plan) *p = NULL;
    OWN(qc_runner) *r = NULL;
    cr_assert(qc_plan_new(&p, g, shape, how, st) && qc_runner_new(&r, p, st), "%s", st->message);
    const struct qc_view in = qc_runner_input(r, 0);
    memcpy(in.data, x, qc_view_count(&in) * sizeof *x);
    cr_assert(qc_runner_run(r, NULL, NULL, st), "%s", st->message);
    memcpy(y, qc_runner_output(r, 0).data, count * sizeof *y);
    const size_t bytes = qc_plan_constant_bytes(p);
    qc_graph_free(g);
    return bytes;
}

enum { SIDE = 256, BYTES = SIDE * SIDE * 4, TEXT = 4096 };

/* Bytes that a plan holds of `count` products in a row, all of the same matrix; the results are of the first row. */
static size_t packed_bytes(const char *op, int count, float *y)
{
    const struct qc_shape shape = QC_SHAPE(4, SIDE);
    float ones[4 * SIDE];
    char text[TEXT];
    size_t at = 0;
    qc_text(text, TEXT,
            "graph \"g\" opset 13\ninput %%1 \"x\" f32[4,%d]\nconst %%2 i64[2] = {%d, %d}\n%%3 = ConstantOfShape(%%2) "
            "{value=f32[1] {0.00390625}}\n",
            SIDE, SIDE, SIDE);
    at = strlen(text);
    for (int i = 0; i < count; i++, at += strlen(text + at))
        qc_text(text + at, (unsigned)(TEXT - at), "%%%d = %s(%%%d, %%3)\n", i + 4, op, i ? i + 3 : 1);
    qc_text(text + at, (unsigned)(TEXT - at), "output \"y\" %%%d\n", count + 3);
    struct qc_graph *g = test_graph(text);
    for (int i = 0; i < 4 * SIDE; i++) ones[i] = 1;
    return run_once(y, 1, g, &shape, NULL, ones, ST);
}

Test(plan_packed, products_of_one_matrix_pack_it_once)
{
    static const char *const ops[] = {"MatMul", "Gemm"};
    for (int i = 0; i < 2; i++) {
        float one, many;
        const size_t few = packed_bytes(ops[i], 1, &one), all = packed_bytes(ops[i], 12, &many);
        cr_expect_lt(all, few + BYTES, "%s: %zu bytes, and %zu", ops[i], few, all);
        HOLD(one == 1, many == 1);
    }
}

enum { INPUTS = 128, OUTPUTS = 300, TAPS = 9, PIXELS = 16, NUMBERS = OUTPUTS * INPUTS * TAPS };

static void fill(float *x, size_t n)
{
    uint32_t state = 1;
    for (size_t i = 0; i < n; i++) x[i] = (float)((state = state * 1664525u + 1013904223u) >> 24) / 256 - 0.5f;
}

/* A convolution that packs more than one worker is woken for. */
static void convolve(float *y, unsigned workers)
{
    struct qc_status st = QC_STATUS_INIT;
    struct qc_graph *g = qc_graph_new(&st);
    float of[INPUTS * PIXELS];
    const struct qc_shape x = QC_SHAPE(1, INPUTS, 4, 4), w = QC_SHAPE(OUTPUTS, INPUTS, 3, 3);
    const struct qc_attr pads = {.name = "pads", .kind = QC_ATTR_INTS, .count = 4, .ints = (int64_t[]){1, 1, 1, 1}};
    const unsigned before = qc_pool_share(workers);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &w, &st);
    fill(t->data, NUMBERS);
    const qc_id in = qc_graph_add_input(g, "x", QC_F32, &x, &st);
    const struct qc_node_def def =
        FIELDS(.op = QC_OP_Conv, .input_count = 2, .output_count = 1,
               .inputs = (qc_id[]){in, qc_graph_add_constant(g, "w", t, &st)}, .attr_count = 1, .attrs = &pads);
    cr_assert(qc_graph_add_output(g, "y", qc_graph_add(g, &def, &st), &st), "%s", st.message);
    qc_tensor_unref(t);
    fill(of, INPUTS * PIXELS);
    run_once(y, OUTPUTS * PIXELS, g, &x, NULL, of, &st);
    cr_expect_eq(qc_pool_share(before), workers);
}

Test(plan_packed, workers_that_pack_change_nothing)
{
    static float alone[OUTPUTS * PIXELS], shared[OUTPUTS * PIXELS];
    convolve(alone, 1);
    convolve(shared, 3);
    cr_expect_arr_eq(alone, shared, sizeof alone);
}

Test(plan_packed, integers_and_their_sums_are_packed_by_workers)
{
    static const int blocks[] = {3, 3, 3, 3, 3, 3, 1};
    enum { GROUPS = 2, CHANNELS = 19 * QC_TILE_CHANNELS, QUADS = INPUTS / 4, ALL = GROUPS * CHANNELS * INPUTS * TAPS };
    const struct qc_int_shape shape = {
        .kernel = {1, 3, 3}, .inputs = INPUTS, .outputs = OUTPUTS, .groups = GROUPS, .in = {1, 4, 4}, .out = {1, 4, 4}};
    const int64_t stride[] = {INPUTS * TAPS, (int64_t)OUTPUTS * INPUTS * TAPS, TAPS, TAPS, 3, 1};
    const struct qc_scales scales = {.count = 1, .zero_point = (int32_t[]){3}};
    const struct qc_int_pack how = FIELDS(.shape = &shape, .type = QC_I8, .stride = stride, .scales = &scales,
                                          .quads = QUADS, .panels = 7, .blocks = blocks, .channels = CHANNELS);
    QC_FREED int8_t *w = malloc(GROUPS * NUMBERS);
    uint8_t *to[2] = {malloc(ALL), malloc(ALL)};
    int32_t *sums[2] = {malloc(GROUPS * CHANNELS * sizeof(int32_t)), malloc(GROUPS * CHANNELS * sizeof(int32_t))};
    for (size_t i = 0; i < GROUPS * NUMBERS; i++) w[i] = (int8_t)(i * 31 % 127);
    for (unsigned k = 0; k < 2; k++) {
        memset(to[k], 0x5a + (int)k, ALL);
        const unsigned before = qc_pool_share(1 + 2 * k);
        qc_int_pack(to[k], sums[k], &how, w);
        qc_pool_share(before);
    }
    cr_expect_arr_eq(to[0], to[1], ALL);
    cr_expect_arr_eq(sums[0], sums[1], GROUPS * CHANNELS * sizeof(int32_t));
    for (size_t g = 0; g < GROUPS; g++)
        for (size_t c = 0; c < CHANNELS; c++) {
            int32_t sum = 0;
            for (size_t i = 0; c < OUTPUTS && i < INPUTS * TAPS; i++)
                sum += w[(g * OUTPUTS + c) * INPUTS * TAPS + i] - 3;
            cr_expect_eq(sums[1][g * CHANNELS + c], sum, "group %zu channel %zu", g, c);
        }
    for (unsigned k = 0; k < 2; k++) {
        free(to[k]);
        free(sums[k]);
    }
}

/* A product of integers whose weights are as large as those that large models pack in temporary files. */
enum { WIDE = 1024, ROWS = 3, HELD = WIDE * WIDE };

static qc_id step_of(struct qc_graph *g, enum qc_op op, unsigned count, const qc_id *in, qc_id qparams,
                     struct qc_status *st)
{
    const struct qc_node_def d = {.op = op, .input_count = count, .inputs = in, .qparams = qparams};
    return qc_graph_add(g, &d, st);
}

/* Sets y to the results, [ROWS][WIDE]. Returns the bytes that the plan holds. */
static size_t large_product(float *y, bool simulated, bool spills, bool many_runs)
{
    struct qc_graph *g = qc_graph_new(ST);
    float of_rows[ROWS * WIDE];
    const struct qc_shape rows = QC_SHAPE(ROWS, WIDE), square = QC_SHAPE(WIDE, WIDE);
    const struct qc_qparams defs[] = {{.name = "x", .dtype = QC_U8}, {.name = "w", .dtype = QC_I8, .is_weight = true}};
    const float scales[] = {0.03f, 0.001f};
    const int32_t zeros[] = {117, 0};
    struct qc_tensor *t = qc_tensor_new(QC_I8, &square, ST);
    qc_id of[2], q[2];
    g->simulated = simulated;
    g->spills = spills;
    for (size_t i = 0; i < HELD; i++) ((int8_t *)t->data)[i] = (int8_t)(i * i % 11 - 5); /* sums below 2^24 */
    const qc_id x = qc_graph_add_input(g, "x", QC_F32, &rows, ST);
    for (int i = 0; i < 2; i++) {
        q[i] = qc_graph_add_quantizer(g, &defs[i], ST);
        MUST(qc_graph_bind_quantizer(g, q[i], 1, &scales[i], &zeros[i], ST));
    }
    of[0] = step_of(g, QC_OP_Quantize, 1, &x, q[0], ST);
    of[1] = qc_graph_add_affine_constant(g, "w", t, q[1], 0, ST);
    qc_tensor_unref(t);
    const qc_id sum = step_of(g, QC_OP_MatMul, 2, of, qc_graph_add_product(g, q[0], q[1], ST), ST);
    const struct qc_plan_options how = {.many_runs = many_runs};
    MUST(qc_graph_add_output(g, "y", step_of(g, QC_OP_Dequantize, 1, &sum, 0, ST), ST));
    fill(of_rows, ROWS * WIDE);
    return run_once(y, ROWS * WIDE, g, &rows, &how, of_rows, ST);
}

/* If files may be as large as the integers, but not as these and their padding, the weights are read at run time. */
Test(plan_packed, large_weights_of_integers_take_no_memory)
{
    static float plain[ROWS * WIDE], y[ROWS * WIDE];
    struct rlimit before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    for (int k = 0; k < 2; k++) {
        cr_expect_geq(large_product(plain, k, false, true), HELD);
        for (int many = 0; many < 2; many++)
            for (int full = 0; full < 1 + (many && !k); full++) {
                if (full) cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){HELD, before.rlim_max}), 0);
                const size_t bytes = large_product(y, k, true, many);
                setrlimit(RLIMIT_FSIZE, &before);
                if (k || many) cr_expect_lt(bytes, HELD / 2, "%s, %d, %d", k ? "simulated" : "produced", many, full);
                cr_expect_arr_eq(y, plain, sizeof y, "%s, %d, %d", k ? "simulated" : "produced", many, full);
            }
    }
}
