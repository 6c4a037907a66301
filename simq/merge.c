// SPDX-License-Identifier: Apache-2.0
/* Recipes of docs/numerics.md (ONNX Runtime on x86-64), float32 at each step; a, b, c stand for the operands and the result,
   q for stored integers, v = q - z for what is held here:
     Add   ra = f(sa/sc), rb = f(sb/sc), k = f(zc - fma(ra, za, f(rb*zb)));  RNE(fma(qa, ra, fma(qb, rb, k)))
     Mul   RNE(f(f(f(va*vb) * f(f(sa*sb)/sc)) + zc))
     Mean  RNE(clamp(f(sum * f(sx / f(sy*n)))))
   saturated to the levels of c, less zc. */
#include "simq/merge.h"

#include <math.h>
#include <string.h>

#include "simq/kernel_util.h"
#include "simq/rounding.h"

struct merge {
    float ra, rb, k, za, zb, zc, lo, hi, m;
};

static bool prepare_binary(struct qc_prepare *p, struct qc_status *st)
{
    struct merge *s = QC_NEW(p->arena, struct merge, st);
    const struct qc_scales *a = &p->in_scales[0], *b = &p->in_scales[1], *c = &p->out_scales[0];
    if (!s) return false;
    s->za = (float)a->zero_point[0];
    s->zb = (float)b->zero_point[0];
    s->zc = (float)c->zero_point[0];
    s->lo = (float)c->levels.lo;
    s->hi = (float)c->levels.hi;
    s->ra = a->scale[0] / c->scale[0];
    s->rb = b->scale[0] / c->scale[0];
    s->k = s->zc - fmaf(s->ra, s->za, s->rb * s->zb);
    s->m = a->scale[0] * b->scale[0] / c->scale[0];
    p->state = s;
    return true;
}

#define QC_BINARY(name, expression)                                                                                    \
    static QC_INLINE void name##_body(const bool native, const struct merge *m, float *y, const float *a,              \
                                      const float *b, int64_t n, int64_t ys, int64_t as, int64_t bs)                   \
    {                                                                                                                  \
        const struct merge s = *m;                                                                                     \
        if (ys == 1 && as == 1 && bs == 1) {                                                                           \
            QC_IVDEP                                                                                                   \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const float va = a[i], vb = b[i];                                                                      \
                y[i] = (expression);                                                                                   \
            }                                                                                                          \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) {                                                                          \
                const float va = a[i * as], vb = b[i * bs];                                                            \
                y[i * ys] = (expression);                                                                              \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD_ROUND(name,                                                                                                \
                  (const struct merge *m, float *y, const float *a, const float *b, int64_t n, int64_t ys, int64_t as, \
                   int64_t bs),                                                                                        \
                  (m, y, a, b, n, ys, as, bs))                                                                         \
    static void name##_run(void *user, int64_t n, void *const data[], const int64_t stride[])                          \
    {                                                                                                                  \
        name(user, data[0], data[1], data[2], n, stride[0], stride[1], stride[2]);                                     \
    }

QC_BINARY(add, qc_clamp(qc_round_even(fmaf(va + s.za, s.ra, fmaf(vb + s.zb, s.rb, s.k)), native), s.lo, s.hi) - s.zc)
QC_BINARY(mul, qc_clamp(qc_round_even(va *vb *s.m + s.zc, native), s.lo, s.hi) - s.zc)

static void run_binary(const struct qc_run *r, qc_view_run_fn *fn)
{
    struct merge s = *(const struct merge *)r->state;
    const struct qc_view a = qc_view_broadcast(&r->in[0], &r->out[0]), b = qc_view_broadcast(&r->in[1], &r->out[0]);
    const struct qc_view *const views[] = {&r->out[0], &a, &b};
    qc_view_each(3, views, fn, &s);
}

static bool run_add(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    run_binary(r, add_run);
    return true;
}

static bool run_mul(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    run_binary(r, mul_run);
    return true;
}

static const struct qc_kernel merge_add = {
    .name = "add_affine", .order = QC_ORDER_ANY, .in_place = 3, .prepare = prepare_binary, .run = run_add};
static const struct qc_kernel merge_mul = {
    .name = "mul_affine", .order = QC_ORDER_ANY, .in_place = 3, .prepare = prepare_binary, .run = run_mul};

/* Mean: sums in double, exact for as many elements as there can be, in a row-major copy of the result's shape, whose reduced dimensions stand
   still; then rounds. Of a global pool all dimensions behind the channels are reduced. */
struct mean {
    struct qc_rounding rounding;
    bool reduced[QC_RANK_MAX];
    bool keep;
};

static bool prepare_mean(struct qc_prepare *p, struct qc_status *st)
{
    struct mean *s = QC_NEW(p->arena, struct mean, st);
    const int64_t *axes;
    const bool pool = p->node->op == QC_OP_GlobalAveragePool;
    const size_t count = pool ? 0 : qc_attr_ints(p->node, "axes", &axes);
    float n = 1;
    if (!s) return false;
    s->keep = pool || qc_attr_int(p->node, "keepdims", 1) != 0;
    for (size_t i = 0; i < count; i++) {
        int axis;
        if (!qc_axis_of(&axis, axes[i], p->in[0].rank, st)) return false;
        s->reduced[axis] = true;
    }
    for (int i = 0; i < p->in[0].rank; i++) {
        if (pool)
            s->reduced[i] = i >= 2;
        else if (count == 0)
            s->reduced[i] = qc_attr_int(p->node, "noop_with_empty_axes", 0) == 0;
        if (s->reduced[i]) n *= (float)p->in[0].dim[i];
    }
    /* As a requantize of the sum with scale sx / n: f(sx / f(sy*n)). */
    struct qc_scales to = p->out_scales[0], from = p->in_scales[0];
    float scale = to.scale[0] * n;
    from.product = true;
    to.scale = &scale;
    p->state = s;
    p->scratch = qc_view_count(&p->out[0]) * sizeof(double) + 64;
    return qc_rounding_of(&s->rounding, &from, &to, -INFINITY, INFINITY, p->arena, st);
}

static void sum_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const float *x = data[0];
    double *y = data[1];
    (void)user;
    for (int64_t i = 0; i < n; i++) y[i * stride[1]] += (double)x[i * stride[0]];
}

static void single_run(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    float *y = data[0];
    const double *x = data[1];
    (void)user;
    for (int64_t i = 0; i < n; i++) y[i * stride[0]] = (float)x[i * stride[1]];
}

static bool run_mean(const struct qc_run *r, struct qc_status *st)
{
    const struct mean *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    struct qc_view wide = *x, sums = *y;
    (void)st;
    memset(r->scratch, 0, qc_view_count(y) * sizeof(double));
    wide.dtype = sums.dtype = QC_F64;
    wide.data = sums.data = r->scratch;
    for (int i = 0, k = 0; i < x->rank; i++) {
        wide.stride[i] = s->reduced[i] ? 0 : y->stride[k];
        if (!s->reduced[i] || s->keep) k++;
    }
    const struct qc_view *const adding[] = {x, &wide}, *const rounding[] = {y, &sums};
    qc_view_each(2, adding, sum_run, NULL);
    qc_view_each(2, rounding, single_run, NULL);
    qc_rounding_view(&s->rounding, 0, y, y);
    return true;
}

static const struct qc_kernel merge_mean = {.name = "mean_affine",
                                            .order = QC_ORDER_ANY,
                                            .prepare = prepare_mean,
                                            .run = run_mean};

const struct qc_kernel *qc_merge_kernel(const struct qc_node *n, unsigned input_count, const struct qc_scales *in,
                                        const struct qc_scales *out)
{
    if (out->identity || out->count != 1 || !out->rounds) return NULL;
    for (unsigned i = 0; i < input_count; i++)
        if (in[i].identity || in[i].count != 1 || !in[i].rounds) return NULL;
    if (n->op == QC_OP_Add) return &merge_add;
    if (n->op == QC_OP_Mul) return &merge_mul;
    /* Where more than 256 elements of 16 bits meet, float32 cannot hold their sum. */
    const bool wide = (int64_t)in[0].levels.hi - in[0].levels.lo > 255;
    if (n->op == QC_OP_ReduceMean || (n->op == QC_OP_GlobalAveragePool && wide)) return &merge_mean;
    if (n->op == QC_OP_AveragePool || n->op == QC_OP_GlobalAveragePool) return &qc_kernel_pool;
    return NULL;
}
