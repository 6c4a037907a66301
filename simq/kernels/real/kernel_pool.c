// SPDX-License-Identifier: Apache-2.0
/* MaxPool-12, AveragePool-11 (dilations of 19), GlobalAveragePool, GlobalMaxPool, 1 to 3 spatial dimensions. With
   count_include_pad, a window counts the padding that it covers, but nothing beyond (ceil_mode), as in opset 19.
   On centred integers (recipes of docs/numerics.md):
   - maximum: of the integers
   - average: RNE(f(f(avg / sy) + zy)) - zy, avg = f(sum / n) of f(sx * q) in float32, in memory order
   - global: RNE(clamp(f(sum * m))), m = f(sx / f(sy * n)) */
#include <math.h>

#include "arith/real_steps.h"
#include "simq/core/kernel_util.h"

enum recipe { RECIPE_MAX, RECIPE_AVERAGE, RECIPE_AFFINE_AVERAGE, RECIPE_AFFINE_GLOBAL };

/* There are always three spatial dimensions; missing ones come first, with size 1. */
struct pool {
    enum recipe recipe;
    struct qc_window w;
    int64_t in_stride[3], out_stride[3]; /* set at run time from the views */
    int64_t count, channels, in_n, in_c, out_n, out_c;
    float sx, sy, zy, lo, hi, m;
};

static bool prepare_pool(struct qc_prepare *p, struct qc_status *st)
{
    struct pool *s = QC_NEW_STATE(p, struct pool, st);
    const struct qc_scales *x = &p->in_scales[0], *y = &p->out_scales[0];
    const enum qc_op op = p->node->op;
    const bool max = op == QC_OP_MaxPool || op == QC_OP_GlobalMaxPool;
    if (!s || !qc_kernel_window(&s->w, p, st)) return false;
    s->recipe = max ? RECIPE_MAX : RECIPE_AVERAGE;
    if (!max && !x->identity) {
        s->recipe = op == QC_OP_GlobalAveragePool ? RECIPE_AFFINE_GLOBAL : RECIPE_AFFINE_AVERAGE;
        s->sx = x->scale[0];
        s->sy = y->scale[0];
        s->zy = (float)y->zero_point[0];
        s->lo = (float)(y->levels.lo - y->zero_point[0]);
        s->hi = (float)(y->levels.hi - y->zero_point[0]);
        const float n = (float)(s->w.in[0] * s->w.in[1] * s->w.in[2]);
        s->m = qc_mean_factor(s->sx, s->sy, n);
    }
    if (p->in[0].dtype == QC_F32 ||
        (max && (p->in[0].dtype == QC_U8 || p->in[0].dtype == QC_I8 || p->in[0].dtype == QC_F64)))
        return true;
    return qc_kernel_no_type(p->in[0].dtype, st);
}

/* Positions of the window of output o inside the data: [*begin, *end). Returns how many positions the average
   counts. */
static QC_INLINE int64_t reach_pool(int64_t *begin, int64_t *end, const struct qc_window *w, int d, int64_t o)
{
    const int64_t start = o * w->stride[d] - w->pad_begin[d], step = w->dilation[d];
    int64_t first = 0, last = w->kernel[d], bound = w->kernel[d];
    if (start < 0) first = (-start + step - 1) / step;
    if (start + (last - 1) * step >= w->in[d]) last = w->in[d] > start ? (w->in[d] - start + step - 1) / step : 0;
    if (start + (bound - 1) * step >= w->in[d] + w->pad_end[d])
        bound = (w->in[d] + w->pad_end[d] - start + step - 1) / step;
    *begin = start + first * step;
    *end = last > first ? start + last * step : *begin;
    return w->count_include_pad ? bound : last > first ? last - first : 0;
}

/* The loop for one type: for each window, its positions in order, channels inside. `first` initialises, `next`
   accumulates, `done` finishes. */
#define QC_POOL_BODY(T, first, next, done)                                                                             \
    const struct qc_window *w = &s->w;                                                                                 \
    const int64_t channels = s->channels; /* local copy: the compiler must assume that writes to y change *s */        \
    for (int64_t n = 0; n < s->count; n++)                                                                             \
        for (int64_t o0 = 0; o0 < w->out[0]; o0++)                                                                     \
            for (int64_t o1 = 0; o1 < w->out[1]; o1++)                                                                 \
                for (int64_t o2 = 0; o2 < w->out[2]; o2++) {                                                           \
                    int64_t b0, b1, b2, e0, e1, e2;                                                                    \
                    const int64_t size = reach_pool(&b0, &e0, w, 0, o0) * reach_pool(&b1, &e1, w, 1, o1) *             \
                                         reach_pool(&b2, &e2, w, 2, o2);                                               \
                    T *to = y + n * s->out_n + o0 * s->out_stride[0] + o1 * s->out_stride[1] + o2 * s->out_stride[2];  \
                    const T *from = x + n * s->in_n;                                                                   \
                    for (int64_t c = 0; c < channels; c++) to[c * out_c] = (first);                                    \
                    for (int64_t i0 = b0; i0 < e0; i0 += w->dilation[0])                                               \
                        for (int64_t i1 = b1; i1 < e1; i1 += w->dilation[1])                                           \
                            for (int64_t i2 = b2; i2 < e2; i2 += w->dilation[2]) {                                     \
                                const T *at =                                                                          \
                                    from + i0 * s->in_stride[0] + i1 * s->in_stride[1] + i2 * s->in_stride[2];         \
                                QC_IVDEP                                                                               \
                                for (int64_t c = 0; c < channels; c++) {                                               \
                                    const T a = to[c * out_c], v = at[c * in_c];                                       \
                                    to[c * out_c] = (next);                                                            \
                                }                                                                                      \
                            }                                                                                          \
                    (void)size;                                                                                        \
                    done                                                                                               \
                }

#define QC_EACH_CHANNEL(expression)                                                                                    \
    QC_IVDEP                                                                                                           \
    for (int64_t c = 0; c < channels; c++) {                                                                           \
        const float a = to[c * out_c];                                                                                 \
        to[c * out_c] = (expression);                                                                                  \
    }

static QC_INLINE void max_body(const struct pool *s, float *y, const float *x, const int64_t out_c, const int64_t in_c)
{
    QC_POOL_BODY(float, -INFINITY, v > a ? v : a, )
}

static QC_INLINE void average_body(const struct pool *s, float *y, const float *x, const int64_t out_c,
                                   const int64_t in_c)
{
    QC_POOL_BODY(float, 0, a + v, {
        const float d = (float)size;
        QC_EACH_CHANNEL(a / d)
    })
}

static QC_INLINE void affine_average_body(const bool native, const struct pool *s, float *y, const float *x,
                                          const int64_t out_c, const int64_t in_c)
{
    const float sx = s->sx, sy = s->sy, zy = s->zy, lo = s->lo + zy, hi = s->hi + zy;
    QC_POOL_BODY(float, 0, a + v * sx, {
        const float d = (float)size;
        QC_EACH_CHANNEL(qc_average_level(a, d, sy, zy, lo, hi, native) - zy)
    })
}

static QC_INLINE void affine_global_body(const bool native, const struct pool *s, float *y, const float *x,
                                         const int64_t out_c, const int64_t in_c)
{
    const float m = s->m, lo = s->lo, hi = s->hi;
    QC_POOL_BODY(float, 0, a + v, {QC_EACH_CHANNEL(qc_level_of_product(a, m, lo, hi, native))})
}

/* Contiguous channels have loops of their own, which compilers vectorise. */
QC_VECTOR_ROUND(all, (const struct pool *s, float *y, const float *x), (s, y, x))
{
    const bool last = s->in_c == 1 && s->out_c == 1;
    switch (s->recipe) {
    case RECIPE_MAX:
        if (last)
            max_body(s, y, x, 1, 1);
        else
            max_body(s, y, x, s->out_c, s->in_c);
        break;
    case RECIPE_AVERAGE:
        if (last)
            average_body(s, y, x, 1, 1);
        else
            average_body(s, y, x, s->out_c, s->in_c);
        break;
    case RECIPE_AFFINE_AVERAGE:
        if (last)
            affine_average_body(native, s, y, x, 1, 1);
        else
            affine_average_body(native, s, y, x, s->out_c, s->in_c);
        break;
    case RECIPE_AFFINE_GLOBAL:
        if (last)
            affine_global_body(native, s, y, x, 1, 1);
        else
            affine_global_body(native, s, y, x, s->out_c, s->in_c);
        break;
    }
}

#define QC_MAX_OF(NAME, T, lowest)                                                                                     \
    static QC_INLINE void max_##NAME##_any(const struct pool *s, T *y, const T *x, const int64_t out_c,                \
                                           const int64_t in_c)                                                         \
    {                                                                                                                  \
        QC_POOL_BODY(T, lowest, v > a ? v : a, )                                                                       \
    }                                                                                                                  \
    static QC_INLINE void max_##NAME##_body(const struct pool *s, T *y, const T *x)                                    \
    {                                                                                                                  \
        if (s->in_c == 1 && s->out_c == 1)                                                                             \
            max_##NAME##_any(s, y, x, 1, 1);                                                                           \
        else                                                                                                           \
            max_##NAME##_any(s, y, x, s->out_c, s->in_c);                                                              \
    }                                                                                                                  \
    QC_SIMD(max_##NAME, (const struct pool *s, T *y, const T *x), (s, y, x))
QC_MAX_OF(F64, double, -(double)INFINITY)
QC_MAX_OF(I8, int8_t, INT8_MIN)
QC_MAX_OF(U8, uint8_t, 0)

static void set_strides(struct pool *s, const struct qc_view *y, const struct qc_view *x)
{
    const int missing = 3 - s->w.spatial;
    s->count = x->dim[0];
    s->channels = x->dim[1];
    s->in_n = x->stride[0];
    s->in_c = x->stride[1];
    s->out_n = y->stride[0];
    s->out_c = y->stride[1];
    for (int i = 0; i < 3; i++) {
        s->in_stride[i] = i < missing ? 0 : x->stride[2 + i - missing];
        s->out_stride[i] = i < missing ? 0 : y->stride[2 + i - missing];
    }
}

static bool run_pool(const struct qc_run *r, struct qc_status *st)
{
    struct pool s = *(const struct pool *)r->state;
    set_strides(&s, &r->out[0], &r->in[0]);
    const enum qc_dtype t = r->in[0].dtype; /* prepare accepts no other */
    if (t == QC_F32)
        all(&s, r->out[0].data, r->in[0].data);
    else if (t == QC_F64)
        max_F64(&s, r->out[0].data, r->in[0].data);
    else if (t == QC_I8)
        max_I8(&s, r->out[0].data, r->in[0].data);
    else
        max_U8(&s, r->out[0].data, r->in[0].data);
    return true;
}

QC_KERNEL(pool, .order = QC_ORDER_LAST, .prepare = prepare_pool, .run = run_pool);
