// SPDX-License-Identifier: Apache-2.0
/* Float32 steps where another order of them gives another level: requantize between quantizers, Add, Mul. Reference:
   the recipes of docs/numerics.md, written out here, on pairs of all levels; each case must tell the recipe from its
   neighbour. */
#include "simq/plan/plan.h"
#include "tests/check.h"

enum { LEVELS = 256, PAIRS = LEVELS * LEVELS };

static qc_id add(struct qc_graph *g, enum qc_op op, unsigned count, const qc_id *in, qc_id qparams)
{
    struct qc_node_def def = {.op = op, .input_count = count, .inputs = in, .qparams = qparams};
    qc_id v = qc_graph_add(g, &def, ST);
    MUST(v);
    return v;
}

/* Levels of the result of op on all pairs of levels; a Requantize takes the first. */
static void run(uint8_t *y, enum qc_op op, const float scale[3], const int32_t zero[3])
{
    static float x[2][PAIRS];
    const struct qc_shape shape = QC_SHAPE(PAIRS), shapes[2] = {shape, shape};
    OWN(qc_graph) *g = qc_graph_new(ST);
    OWN(qc_plan) *p = NULL;
    OWN(qc_runner) *r = NULL;
    static const char *const names[] = {"a", "b", "c"};
    qc_id qparams_of[3], in[2];
    const unsigned count = op == QC_OP_Requantize ? 1 : 2;
    g->simulated = true;
    for (int i = 0; i < 3; i++) qparams_of[i] = test_quantizer(g, names[i], QC_U8, false, scale[i], zero[i]);
    for (unsigned i = 0; i < count; i++) {
        qc_id v = qc_graph_add_input(g, i ? "y" : "x", QC_F32, &shape, ST);
        in[i] = add(g, QC_OP_Quantize, 1, &v, qparams_of[i]);
    }
    qc_id c = add(g, op, count, in, qparams_of[2]), out = add(g, QC_OP_Dequantize, 1, &c, 0);
    MUST(qc_graph_add_output(g, "z", out, ST) && qc_plan_new(&p, g, shapes, NULL, ST) && qc_runner_new(&r, p, ST));
    for (int k = 0; k < PAIRS; k++) {
        x[0][k] = (float)(k / LEVELS - zero[0]) * scale[0];
        x[1][k] = (float)(k % LEVELS - zero[1]) * scale[1];
    }
    for (unsigned i = 0; i < count; i++) memcpy(qc_runner_input(r, i).data, x[i], sizeof x[i]);
    MUST(qc_runner_run(r, NULL, NULL, ST));
    const float *z = qc_runner_output(r, 0).data;
    for (int k = 0; k < PAIRS; k++) y[k] = (uint8_t)(lrintf(z[k] / scale[2]) + zero[2]);
}

static uint8_t level(float v)
{
    return (uint8_t)(v < 0 ? 0 : v > 255 ? 255 : nearbyintf(v));
}

static uint8_t expected(enum qc_op op, bool other, float qa, float qb, const float s[3], const int32_t z[3])
{
    const float za = (float)z[0], zb = (float)z[1], zc = (float)z[2];
    volatile float t; /* each step is rounded to float32 */
    if (op == QC_OP_Requantize) {
        if (other) {
            t = s[0] / s[2];
            t = (qa - za) * t;
        } else {
            t = (qa - za) * s[0];
            t = t / s[2];
        }
        return level(nearbyintf(t) + zc);
    }
    volatile float ra = s[0] / s[2], rb = s[1] / s[2];
    if (op == QC_OP_Add) {
        t = rb * zb;
        const float k = zc - fmaf(ra, za, t);
        if (!other) return level(fmaf(qa, ra, fmaf(qb, rb, k)));
        volatile float u = qa * ra, v = qb * rb;
        v = v + k;
        return level(u + v);
    }
    t = s[0] * s[1];
    t = t / s[2];
    volatile float product = (qa - za) * (qb - zb);
    product = product * t;
    if (other) return level(nearbyintf(product) + zc);
    product = product + zc;
    return level(product);
}

static void check(enum qc_op op, const float s[3], const int32_t z[3])
{
    static uint8_t y[PAIRS];
    size_t differ = 0;
    run(y, op, s, z);
    for (int k = 0; k < PAIRS; k++) {
        const float qa = (float)(k / LEVELS), qb = (float)(k % LEVELS);
        const uint8_t e = expected(op, false, qa, qb, s, z);
        cr_assert_eq(y[k], e, "%s of %g and %g: %d, expected %d", qc_op_info(op)->name, (double)qa, (double)qb, y[k],
                     e);
        differ += e != expected(op, true, qa, qb, s, z);
    }
    cr_expect_gt(differ, 0, "%s: the case tells nothing", qc_op_info(op)->name);
}

Test(rounding_steps, requantize_between_quantizers)
{
    check(QC_OP_Requantize, (const float[]){0.3f, 0.33f, 0.48f}, (const int32_t[]){243, 8, 36});
}

Test(rounding_steps, add)
{
    check(QC_OP_Add, (const float[]){0.3f, 0.33f, 0.48f}, (const int32_t[]){243, 8, 36});
}

Test(rounding_steps, mul)
{
    check(QC_OP_Mul, (const float[]){0.04f, 0.18f, 0.32f}, (const int32_t[]){124, 29, 251});
}

/* x -> conv -> requantize -> clip, fused into one step; the bounds are levels of the result, whose zero point is not 0.
 */
Test(rounding_steps, bounds_of_a_clip_that_is_part_of_a_convolution)
{
    enum { N = 64 };
    const struct qc_shape shape = QC_SHAPE(1, 1, 8, 8), one = QC_SHAPE(1, 1, 1, 1);
    OWN(qc_graph) *g = qc_graph_new(ST);
    OWN(qc_plan) *p = NULL;
    OWN(qc_runner) *r = NULL;
    g->simulated = true;
    qc_id x = qc_graph_add_input(g, "x", QC_F32, &shape, ST), a = test_quantizer(g, "a", QC_U8, false, 0.5f, 20),
          b = test_quantizer(g, "b", QC_U8, false, 0.25f, 3), c = test_quantizer(g, "c", QC_U8, false, 0.5f, 40);
    const float numbers[] = {1, -3, 4};
    qc_id constants[3];
    for (int i = 0; i < 3; i++) {
        OWN(qc_tensor) *t = qc_tensor_of(QC_F32, i ? &QC_SCALAR : &one, &numbers[i], ST);
        constants[i] = qc_graph_add_constant(g, NULL, t, ST);
    }
    qc_id operands[] = {add(g, QC_OP_Quantize, 1, &x, a), add(g, QC_OP_Quantize, 1, &constants[0], b)};
    qc_id v = add(g, QC_OP_Conv, 2, operands, qc_graph_add_product(g, a, b, ST));
    v = add(g, QC_OP_Requantize, 1, &v, c);
    v = add(g, QC_OP_Clip, 3, (const qc_id[]){v, constants[1], constants[2]}, 0);
    v = add(g, QC_OP_Dequantize, 1, &v, 0);
    MUST(qc_graph_add_output(g, "y", v, ST) && qc_plan_new(&p, g, &shape, NULL, ST) && qc_runner_new(&r, p, ST));
    float *in = qc_runner_input(r, 0).data;
    for (int i = 0; i < N; i++) in[i] = (float)(i - 20) * 0.5f;
    MUST(qc_runner_run(r, NULL, NULL, ST));
    const float *y = qc_runner_output(r, 0).data;
    for (int i = 0; i < N; i++) {
        const float e = (float)(i - 20) * 0.5f, clipped = e < -3 ? -3 : e > 4 ? 4 : e;
        cr_expect_eq(y[i], clipped, "clip(%g): %g", (double)e, (double)y[i]);
    }
}
