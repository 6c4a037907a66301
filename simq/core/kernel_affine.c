// SPDX-License-Identifier: Apache-2.0
#include "simq/core/integer.h"

#include <math.h>

#include "arith/qbinary.h"
#include "simq/core/convert.h"
#include "simq/core/kernel_util.h"

static bool prepare_affine_binary(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_qbinary *s = QC_NEW_STATE(p, struct qc_qbinary, st);
    const struct qc_scales *const scales[] = {&p->in_scales[0], &p->in_scales[1], &p->out_scales[0]};
    struct qc_affine parameters[3];
    if (!s) return false;
    for (int i = 0; i < 3; i++) parameters[i] = (struct qc_affine){scales[i]->scale[0], scales[i]->zero_point[0]};
    *s = qc_qbinary_onnx(p->node->op == QC_OP_Add ? QC_QBINARY_ADD : QC_QBINARY_MUL, parameters,
                         p->out_scales[0].levels);
    return true;
}

static void binary_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    qc_qbinary_centred(user, data[0], data[1], data[2], (size_t)n, stride);
}

static bool run_affine_binary(const struct qc_run *r, struct qc_status *st)
{
    struct qc_qbinary s = *(const struct qc_qbinary *)r->state;
    const struct qc_view a = qc_view_broadcast(&r->in[0], &r->out[0]), b = qc_view_broadcast(&r->in[1], &r->out[0]);
    qc_view_each(3, QC_VIEWS(&r->out[0], &a, &b), binary_run, &s);
    return true;
}

static const struct qc_kernel affine_add = {.name = "add_affine",
                                            .order = QC_ORDER_ANY,
                                            .in_place = 3,
                                            .prepare = prepare_affine_binary,
                                            .run = run_affine_binary};
static const struct qc_kernel affine_mul = {.name = "mul_affine",
                                            .order = QC_ORDER_ANY,
                                            .in_place = 3,
                                            .prepare = prepare_affine_binary,
                                            .run = run_affine_binary};

/* Sums in double, which is exact for any number of elements that fits in memory, and rounds once. */
struct mean {
    struct qc_rounding rounding;
    struct qc_mean over;
};

static bool prepare_mean(struct qc_prepare *p, struct qc_status *st)
{
    struct mean *s = QC_NEW_STATE(p, struct mean, st);
    if (!s || !qc_mean_of(&s->over, p, sizeof(double), st)) return false;
    /* A requantize of the sum with scale sx / n: f(sx / f(sy*n)). */
    struct qc_scales to = p->out_scales[0], from = p->in_scales[0];
    float scale = to.scale[0] * (float)s->over.count;
    from.product = true;
    to.scale = &scale;
    return qc_rounding_of(&s->rounding, &from, &to, -INFINITY, INFINITY, p->arena, st);
}

static void sum_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const float *x = data[0];
    double *y = data[1];
    for (int64_t i = 0; i < n; i++) y[i * stride[1]] += (double)x[i * stride[0]];
}

static void single_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    float *y = data[0];
    const double *x = data[1];
    for (int64_t i = 0; i < n; i++) y[i * stride[0]] = (float)x[i * stride[1]];
}

static bool run_mean(const struct qc_run *r, struct qc_status *st)
{
    const struct mean *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    struct qc_view wide, sums;
    qc_mean_sums(&sums, &wide, &s->over, r, QC_F64);
    qc_view_each(2, QC_VIEWS(x, &wide), sum_run, NULL);
    qc_view_each(2, QC_VIEWS(y, &sums), single_run, NULL);
    qc_rounding_view(&s->rounding, 0, y, y);
    return true;
}

static const struct qc_kernel affine_mean = {.name = "mean_affine",
                                             .order = QC_ORDER_ANY,
                                             .prepare = prepare_mean,
                                             .run = run_mean};

const struct qc_kernel *qc_affine_kernel(const struct qc_node *n, unsigned input_count, const struct qc_scales *in,
                                         const struct qc_scales *out)
{
    if (out->identity || out->count != 1 || !out->rounds) return NULL;
    for (unsigned i = 0; i < input_count; i++)
        if (in[i].identity || in[i].count != 1 || !in[i].rounds) return NULL;
    if (n->op == QC_OP_Add) return &affine_add;
    if (n->op == QC_OP_Mul) return &affine_mul;
    /* float32 cannot hold the sum of more than 256 elements of 16 bits. */
    const bool wide = (int64_t)in[0].levels.hi - in[0].levels.lo > 255;
    if (n->op == QC_OP_ReduceMean || (n->op == QC_OP_GlobalAveragePool && wide)) return &affine_mean;
    if (n->op == QC_OP_AveragePool || n->op == QC_OP_GlobalAveragePool) return &qc_kernel_pool;
    return NULL;
}
