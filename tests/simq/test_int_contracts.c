// SPDX-License-Identifier: Apache-2.0
/* Ops of produced graphs under every rounding contract, against the scalar functions of arith/ (which have references
   of their own: TensorFlow Lite, exact arithmetic) and sums in int64. */
#include "arith/contract.h"
#include "arith/qbinary.h"
#include "arith/real_steps.h"
#include "random_graph.h"
#include "simq/core/convert.h"
#include "simq/core/kernel.h"
#include "simq/plan/plan.h"
#include "tests/check.h"

enum { CHANNELS = 5, OUTPUTS = 20, WIDTH = 37, DATA = CHANNELS * WIDTH };

struct scene {
    struct random_source random;
    struct qc_status st;
    struct qc_graph *g;
    enum qc_contract contract;
    struct qc_affine x, y, z; /* data, other data, result */
    qc_id xs, ys, zs;
    float x_real[DATA], y_real[DATA];
    int32_t x_level[DATA], y_level[DATA], got[OUTPUTS * WIDTH];
};

static const struct qc_levels bytes = {.lo = -128, .hi = 127};

static struct qc_affine parameters(struct scene *s)
{
    const float ties[] = {0.0625f, 0.125f, 0.25f};
    const bool tie = random_int(&s->random, 0, 1);
    return (struct qc_affine){.scale = tie ? ties[random_int(&s->random, 0, 2)]
                                           : 0.01f + 0.2f * (random_real(&s->random) + 1),
                              .zero_point = (int32_t)random_int(&s->random, -128, 127)};
}

static qc_id add(struct scene *s, enum qc_op op, unsigned count, const qc_id *in, unsigned attr_count,
                 const struct qc_attr *attrs, qc_id qparams)
{
    const struct qc_node_def d = {
        .op = op, .input_count = count, .inputs = in, .attr_count = attr_count, .attrs = attrs, .qparams = qparams};
    const qc_id v = qc_graph_add(s->g, &d, &s->st);
    cr_assert(v, "%s", s->st.message);
    return v;
}

static qc_id input(struct scene *s, const char *name, float *real, int32_t *level, struct qc_affine p, qc_id qparams)
{
    const struct qc_shape shape = qc_shape_of(3, (const int64_t[]){1, CHANNELS, WIDTH});
    for (int i = 0; i < DATA; i++) {
        /* Halves of a step, so that the rules of rounding differ. */
        real[i] = p.scale * (float)random_int(&s->random, -300, 300) * 0.5f;
        level[i] = qc_quantize_by(s->contract, real[i], p, bytes);
    }
    const qc_id x = qc_graph_add_input(s->g, name, QC_F32, &shape, &s->st);
    return add(s, QC_OP_Quantize, 1, &x, 0, NULL, qparams);
}

static struct scene begin(uint64_t seed, enum qc_contract contract)
{
    struct scene scene = {.random = {seed}, .st = QC_STATUS_INIT, .contract = contract}, *s = &scene;
    s->g = qc_graph_new(&s->st);
    s->x = parameters(s);
    s->y = parameters(s);
    s->z = parameters(s);
    s->xs = test_quantizer(s->g, "x", QC_I8, false, s->x.scale, s->x.zero_point);
    s->ys = test_quantizer(s->g, "y", QC_I8, false, s->y.scale, s->y.zero_point);
    s->zs = test_quantizer(s->g, "z", QC_I8, false, s->z.scale, s->z.zero_point);
    return scene;
}

/* Runs the graph; the result's stored integers are in s->got. */
static void run(struct scene *s, qc_id result, size_t count)
{
    struct qc_plan *plan;
    struct qc_runner *r;
    struct qc_shape shapes[2];
    const struct qc_plan_options options = {.rounding = s->contract};
    cr_assert(qc_graph_add_output(s->g, "result", result, &s->st), "%s", s->st.message);
    for (size_t i = 0; i < s->g->input_count; i++) shapes[i] = s->g->values[s->g->inputs[i].value].type.shape;
    cr_assert(qc_plan_new(&plan, s->g, shapes, &options, &s->st) && qc_runner_new(&r, plan, &s->st), "%s",
              s->st.message);
    for (size_t i = 0; i < s->g->input_count; i++) {
        const struct qc_view v = qc_runner_input(r, i);
        memcpy(v.data, i ? s->y_real : s->x_real, DATA * sizeof(float));
    }
    cr_assert(qc_runner_run(r, NULL, NULL, &s->st), "%s", s->st.message);
    const struct qc_view v = qc_runner_output(r, 0);
    cr_assert(v.dtype == QC_I8 && qc_view_count(&v) == count);
    for (size_t i = 0; i < count; i++) s->got[i] = ((const int8_t *)v.data)[i];
    qc_runner_free(r);
    qc_plan_free(plan);
    qc_graph_free(s->g);
}

static void expect(const struct scene *s, const char *what, const int32_t *want, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (s->got[i] != want[i]) {
            cr_expect(false, "%s, %s: element %zu is %d, expected %d", qc_contract_info(s->contract)->name, what, i,
                      (int)s->got[i], (int)want[i]);
            return;
        }
}

static struct qc_requantize_def quantizer_def(const struct scene *s, enum qc_requantize_source source)
{
    return (struct qc_requantize_def)FIELDS(.contract = s->contract, .source = source, .input_scale = s->x.scale,
                                            .input_zero_point = source == QC_FROM_QUANTIZER ? s->x.zero_point : 0,
                                            .count = 1, .divisor = WIDTH, .output = s->z, .levels = bytes);
}

static void check_requantize(uint64_t seed, enum qc_contract contract)
{
    struct scene s = begin(seed, contract);
    int32_t want[DATA];
    struct qc_requantizer r;
    const qc_id x = input(&s, "x", s.x_real, s.x_level, s.x, s.xs);
    const struct qc_requantize_def d = quantizer_def(&s, QC_FROM_QUANTIZER);
    cr_assert(qc_requantizer_of(&r, &d, test_arena(), &s.st), "%s", s.st.message);
    for (int i = 0; i < DATA; i++) want[i] = qc_requantize_one(&r, 0, s.x_level[i]);
    run(&s, add(&s, QC_OP_Requantize, 1, &x, 0, NULL, s.zs), DATA);
    expect(&s, "requantize", want, DATA);
}

static void check_mean(uint64_t seed, enum qc_contract contract)
{
    struct scene s = begin(seed, contract);
    int32_t want[CHANNELS];
    struct qc_requantizer r;
    const qc_id x = input(&s, "x", s.x_real, s.x_level, s.x, s.xs);
    const struct qc_requantize_def d = quantizer_def(&s, QC_FROM_SUM);
    cr_assert(qc_requantizer_of(&r, &d, test_arena(), &s.st), "%s", s.st.message);
    for (int c = 0; c < CHANNELS; c++) {
        int64_t sum = 0;
        for (int i = 0; i < WIDTH; i++) sum += s.x_level[c * WIDTH + i] - s.x.zero_point;
        want[c] = qc_requantize_one(&r, 0, sum);
    }
    run(&s, add(&s, QC_OP_GlobalAveragePool, 1, &x, 0, NULL, s.zs), CHANNELS);
    expect(&s, "mean", want, CHANNELS);
}

/* Windows of three, stride 2, one position of padding; same: the result has the qparams of the data. */
static void check_average(uint64_t seed, enum qc_contract contract, bool same)
{
    enum { OUT = (WIDTH + 2 - 3) / 2 + 1 };
    struct scene s = begin(seed, contract);
    int32_t want[CHANNELS * OUT];
    if (same) s.z = s.x;
    const qc_id x = input(&s, "x", s.x_real, s.x_level, s.x, s.xs);
    for (int c = 0; c < CHANNELS; c++)
        for (int o = 0; o < OUT; o++) {
            int64_t sum = 0, n = 0;
            struct qc_requantizer r;
            for (int k = -1; k <= 1; k++)
                if (2 * o + k >= 0 && 2 * o + k < WIDTH) {
                    sum += s.x_level[c * WIDTH + 2 * o + k] - s.x.zero_point;
                    n++;
                }
            struct qc_requantize_def d = quantizer_def(&s, QC_FROM_SUM);
            d.divisor = n;
            cr_assert(qc_requantizer_of(&r, &d, test_arena(), &s.st), "%s", s.st.message);
            want[c * OUT + o] =
                same ? (int32_t)qc_average_away(sum + n * s.x.zero_point, n) : qc_requantize_one(&r, 0, sum);
        }
    const struct qc_attr attrs[] = {QC_INTS("kernel_shape", 1, ((const int64_t[]){3})),
                                    QC_INTS("strides", 1, ((const int64_t[]){2})),
                                    QC_INTS("pads", 2, ((const int64_t[]){1, 1}))};
    run(&s, add(&s, QC_OP_AveragePool, 1, &x, 3, attrs, same ? s.xs : s.zs), CHANNELS * OUT);
    expect(&s, same ? "average with the same qparams" : "average", want, CHANNELS * OUT);
}

static void check_binary(uint64_t seed, enum qc_contract contract, enum qc_op op, enum qc_qbinary_op binary)
{
    struct scene s = begin(seed, contract);
    int32_t want[DATA];
    struct qc_qbinary m;
    const qc_id in[2] = {input(&s, "x", s.x_real, s.x_level, s.x, s.xs),
                         input(&s, "y", s.y_real, s.y_level, s.y, s.ys)};
    const struct qc_affine p[] = {s.x, s.y, s.z};
    const struct qc_levels levels[] = {bytes, bytes, bytes};
    cr_assert(qc_qbinary_of(&m, contract, binary, p, levels, &s.st), "%s", s.st.message);
    for (int i = 0; i < DATA; i++) want[i] = qc_qbinary_one(&m, s.x_level[i], s.y_level[i]);
    run(&s, add(&s, op, 2, in, 0, NULL, s.zs), DATA);
    expect(&s, qc_op_info(op)->name, want, DATA);
}

/* A pointwise convolution with a bias and scales per channel; clamped: Relu behind the requantize. */
/* What saturation adds to the sum of one column of data, whose levels are `step` apart, shifted to 0 to 255. */
static int64_t lost_in_pairs(const int32_t *level, size_t step, const int32_t *w)
{
    int64_t lost = 0;
    for (size_t k = 0; k + 1 < CHANNELS; k += 2) {
        const int32_t a = level[k * step] + 128, b = level[(k + 1) * step] + 128;
        lost += qc_pair_product(a, w[k], b, w[k + 1]) - (a * w[k] + b * w[k + 1]);
    }
    return lost;
}

static void check_conv(uint64_t seed, enum qc_contract contract, bool clamped)
{
    struct scene s = begin(seed, contract);
    int32_t want[OUTPUTS * WIDTH], w_level[OUTPUTS * CHANNELS];
    float w[OUTPUTS * CHANNELS], scale[OUTPUTS];
    int32_t zero[OUTPUTS] = {0};
    struct qc_requantizer r;
    QC_ARENA_SCOPE *a = qc_arena_new();
    for (int c = 0; c < OUTPUTS; c++) scale[c] = 0.01f * (1.1f + random_real(&s.random));
    for (int i = 0; i < OUTPUTS * CHANNELS; i++) {
        w_level[i] = (int32_t)random_int(&s.random, -127, 127);
        w[i] = (float)w_level[i] * scale[i / CHANNELS];
    }
    const qc_id x = input(&s, "x", s.x_real, s.x_level, s.x, s.xs);
    const struct qc_qparams def = {
        .name = "w", .dtype = QC_I8, .is_weight = true, .per_channel = true, .restricted = true};
    const qc_id ws = qc_graph_add_quantizer(s.g, &def, &s.st);
    cr_assert(ws && qc_graph_bind_quantizer(s.g, ws, OUTPUTS, scale, zero, &s.st), "%s", s.st.message);
    const struct qc_shape shape = qc_shape_of(3, (const int64_t[]){OUTPUTS, CHANNELS, 1});
    struct qc_tensor *t = qc_tensor_of(QC_F32, &shape, w, &s.st);
    const qc_id real = qc_graph_add_constant(s.g, "weights", t, &s.st),
                product = qc_graph_add_product(s.g, s.xs, ws, &s.st);
    qc_tensor_unref(t);
    const qc_id in[2] = {x, add(&s, QC_OP_Quantize, 1, &real, 0, NULL, ws)};
    const struct qc_requantize_def d = FIELDS(.contract = contract, .source = QC_FROM_PRODUCT, .input_scale = s.x.scale,
                                              .count = OUTPUTS, .weight_scale = scale, .output = s.z, .levels = bytes);
    cr_assert(qc_requantizer_of(&r, &d, a, &s.st), "%s", s.st.message);
    for (int c = 0; c < OUTPUTS; c++)
        for (int i = 0; i < WIDTH; i++) {
            int64_t acc = 0;
            for (int k = 0; k < CHANNELS; k++)
                acc += (int64_t)(s.x_level[k * WIDTH + i] - s.x.zero_point) * w_level[c * CHANNELS + k];
            /* int8 that leave the graph as they are stay int8, and such a convolution is exact. */
            if (clamped && qc_contract_info(contract)->products == QC_PRODUCTS_PAIRS)
                acc += lost_in_pairs(s.x_level + i, WIDTH, w_level + (ptrdiff_t)c * CHANNELS);
            int32_t q = qc_requantize_one(&r, (size_t)c, acc);
            if (clamped && q < s.z.zero_point) q = s.z.zero_point;
            want[c * WIDTH + i] = q;
        }
    const qc_id acc = add(&s, QC_OP_Conv, 2, in, 0, NULL, product);
    qc_id y = add(&s, QC_OP_Requantize, 1, &acc, 0, NULL, s.zs);
    if (clamped) y = add(&s, QC_OP_Relu, 1, &y, 0, NULL, 0);
    run(&s, y, OUTPUTS * WIDTH);
    expect(&s, clamped ? "convolution, relu" : "convolution", want, OUTPUTS * WIDTH);
}

/* int32 numbers that are dequantized and quantized: into the same qparams, or into two, whose sum is taken. */
static void check_wide(uint64_t seed, enum qc_contract contract, bool twice)
{
    struct scene s = begin(seed, contract);
    int32_t wide[DATA], want[DATA];
    struct qc_requantizer r[2];
    struct qc_qbinary sum;
    QC_ARENA_SCOPE *a = qc_arena_new();
    const struct qc_shape shape = qc_shape_of(3, (const int64_t[]){1, CHANNELS, WIDTH}), scalar = {.rank = 0};
    const float scale = s.x.scale / 1024;
    const struct qc_affine to[] = {s.z, s.y, s.z};
    const struct qc_levels levels[] = {bytes, bytes, bytes};
    struct qc_tensor *t = qc_tensor_of(QC_F32, &scalar, &scale, &s.st);
    const qc_id x = qc_graph_add_input(s.g, "x", QC_I32, &shape, &s.st),
                q = qc_graph_add_constant(s.g, "scale", t, &s.st);
    const qc_id in[] = {x, q}, real = add(&s, QC_OP_DequantizeLinear, 2, in, 0, NULL, 0);
    const qc_id parts[] = {add(&s, QC_OP_Quantize, 1, &real, 0, NULL, s.zs),
                           add(&s, QC_OP_Quantize, 1, &real, 0, NULL, s.ys)};
    qc_tensor_unref(t);
    for (int i = 0; i < 2; i++) {
        struct qc_requantize_def d = quantizer_def(&s, QC_FROM_QUANTIZER);
        d.input_scale = scale;
        d.input_zero_point = 0;
        d.output = to[i];
        cr_assert(qc_requantizer_of(&r[i], &d, a, &s.st), "%s", s.st.message);
    }
    cr_assert(qc_qbinary_of(&sum, contract, QC_QBINARY_ADD, to, levels, &s.st), "%s", s.st.message);
    for (int i = 0; i < DATA; i++) {
        static const int32_t ends[] = {INT32_MIN, INT32_MAX, (1 << 24) + 1};
        wide[i] = i < 3 ? ends[i] : (int32_t)random_int(&s.random, -600, 600) * 256; /* halves of a step */
        want[i] = qc_requantize_one(&r[0], 0, wide[i]);
        if (twice) want[i] = qc_qbinary_one(&sum, want[i], qc_requantize_one(&r[1], 0, wide[i]));
    }
    memcpy(s.x_real, wide, sizeof wide);
    run(&s, twice ? add(&s, QC_OP_Add, 2, parts, 0, NULL, s.zs) : parts[0], DATA);
    expect(&s, twice ? "int32 twice" : "int32", want, DATA);
}

Test(contracts, integer_ops_equal_the_scalar_functions)
{
    for (int c = 0; c < QC_CONTRACT_COUNT; c++) {
        const enum qc_contract contract = (enum qc_contract)c;
        for (uint64_t seed = 1; seed <= 40; seed++) {
            check_mean(seed, contract);
            check_binary(seed, contract, QC_OP_Add, QC_QBINARY_ADD);
            check_binary(seed, contract, QC_OP_Mul, QC_QBINARY_MUL);
            check_binary(seed, contract, QC_OP_Sub, QC_QBINARY_SUB);
            check_conv(seed, contract, seed % 2);
            check_requantize(seed, contract);
            check_wide(seed, contract, false);
            check_wide(seed, contract, true);
            if (qc_contract_is_float(contract)) continue; /* its average is sequential float32: test_affine.c */
            check_average(seed, contract, false);
            check_average(seed, contract, true);
        }
    }
}

/* As a model that is quantized already may have its data: each channel with a scale and a zero point of its own. */
Test(contracts, channels_with_zero_points_of_their_own_are_read_back)
{
    static const enum qc_dtype stored[] = {QC_U8, QC_I8, QC_U16, QC_I16};
    for (size_t k = 0; k < sizeof stored / sizeof *stored; k++) {
        struct random_source random = {k + 1};
        const struct qc_dtype_info *t = qc_dtype_info(stored[k]);
        const struct qc_shape shape = qc_shape_of(2, (const int64_t[]){WIDTH, CHANNELS});
        float scale[CHANNELS], got[DATA];
        int32_t zero[CHANNELS], level[DATA];
        OWN(qc_tensor) *x = qc_tensor_new(stored[k], &shape, ST);
        struct qc_convert c;
        for (int i = 0; i < CHANNELS; i++) {
            scale[i] = 0.05f * (1.1f + random_real(&random));
            zero[i] = (int32_t)random_int(&random, 1, 100);
        }
        for (int i = 0; i < DATA; i++) level[i] = (int32_t)random_int(&random, t->lo, t->hi);
        qc_store_levels(stored[k], x->data, level, DATA);
        const struct qc_scales from = FIELDS(.qparams = 1, .rounds = true, .count = CHANNELS, .axis = 1, .scale = scale,
                                             .zero_point = zero, .levels = {t->lo, t->hi}),
                               to = FIELDS(.identity = true, .count = 1, .scale = (const float[]){1},
                                           .zero_point = (const int32_t[]){0});
        MUST(qc_convert_of(&c, (struct qc_convert_end){stored[k], &from}, (struct qc_convert_end){QC_F32, &to},
                           -INFINITY, INFINITY, NULL, test_arena(), ST));
        for (int i = 0; i < WIDTH; i++)
            qc_convert_run(&c, 0, got + i * CHANNELS,
                           (const char *)x->data + (size_t)(i * CHANNELS) * qc_dtype_size(stored[k]), CHANNELS);
        for (int i = 0; i < DATA; i++) {
            const float want = (float)(level[i] - zero[i % CHANNELS]) * scale[i % CHANNELS];
            cr_expect_eq(got[i], want, "%s, element %d: %g instead of %g", t->name, i, (double)got[i], (double)want);
        }
    }
}
