// SPDX-License-Identifier: Apache-2.0
/* AveragePool in fixed point, from int32 sums of q - zero point over a window. If input and result have the same
   parameters, the result is the mean, rounded half away from zero (TensorFlow Lite). Otherwise the sum is
   requantized, with the number of positions in the multiplier. */
#include <math.h>

#include "arith/real_steps.h"
#include "simq/core/convert.h"
#include "simq/core/integer.h"
#include "simq/core/kernel_util.h"

struct average {
    struct qc_window w; /* of qc_kernel_window */
    int missing;
    bool same;
    int32_t zero;
    struct qc_levels levels;
    int64_t most;                      /* positions of a full window */
    struct qc_requantizer *requantize; /* [most + 1], indexed by the number of positions that count */
};

static bool prepare_int_average(struct qc_prepare *p, struct qc_status *st)
{
    struct average *s = QC_NEW_STATE(p, struct average, st);
    const struct qc_scales *x = &p->in_scales[0], *y = &p->out_scales[0];
    if (!s || !qc_kernel_window(&s->w, p, st)) return false;
    struct qc_window *w = &s->w;
    s->missing = 3 - w->spatial;
    s->same = x->scale[0] == y->scale[0] && x->zero_point[0] == y->zero_point[0];
    s->zero = x->zero_point[0];
    s->levels = y->levels;
    s->most = w->kernel[0] * w->kernel[1] * w->kernel[2];
    if (s->most > 1 << 16) return qc_fail(st, QC_UNSUPPORTED, "a window of more than 65536 positions");
    if (!(s->requantize = QC_NEW_ARRAY(p->arena, struct qc_requantizer, (size_t)s->most + 1, st))) return false;
    for (int64_t n = 1; !s->same && n <= s->most; n++) {
        const struct qc_requantize_def d = {.contract = p->contract,
                                            .source = QC_FROM_SUM,
                                            .input_scale = x->scale[0],
                                            .count = 1,
                                            .divisor = n,
                                            .output = {.scale = y->scale[0], .zero_point = y->zero_point[0]},
                                            .levels = y->levels};
        if (!qc_requantizer_of(&s->requantize[n], &d, p->arena, st)) return false;
    }
    return true;
}

static int32_t average_at(const struct average *s, const struct qc_view *x, int64_t base, const int64_t o[3])
{
    const struct qc_window *w = &s->w;
    int64_t sum = 0, count = 0, k[3];
    for (k[0] = 0; k[0] < w->kernel[0]; k[0]++)
        for (k[1] = 0; k[1] < w->kernel[1]; k[1]++)
            for (k[2] = 0; k[2] < w->kernel[2]; k[2]++) {
                bool all = true, counts = true; /* the position is inside the data; it counts */
                int64_t at = base;
                int32_t q = s->zero;
                for (int d = 0; d < 3; d++) {
                    const int64_t i = o[d] * w->stride[d] - w->pad_begin[d] + k[d] * w->dilation[d];
                    const bool inside = i >= 0 && i < w->in[d];
                    all = all && inside;
                    counts = counts && (w->count_include_pad ? i < w->in[d] + w->pad_end[d] : inside);
                    if (d >= s->missing) at += i * x->stride[2 + d - s->missing];
                }
                if (all) qc_load_levels(&q, x->dtype, qc_at(x, at), 1);
                sum += q - s->zero;
                count += counts;
            }
    if (count == 0) return s->zero;
    if (!s->same) return qc_requantize_one(&s->requantize[count], 0, sum);
    const int64_t q = qc_average_away(sum + count * s->zero, count);
    return q < s->levels.lo ? s->levels.lo : q > s->levels.hi ? s->levels.hi : (int32_t)q;
}

static bool run_int_average(const struct qc_run *r, struct qc_status *st)
{
    const struct average *s = r->state;
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    QC_WALK(walk, 0, y) {
        int64_t o[3] = {0};
        for (int d = s->missing; d < 3; d++) o[d] = walk.index[2 + d - s->missing];
        const int32_t q = average_at(s, x, walk.index[0] * x->stride[0] + walk.index[1] * x->stride[1], o);
        qc_store_levels(y->dtype, qc_at(y, walk.at[0]), &q, 1);
    }
    return true;
}

QC_KERNEL(int_average, .order = QC_ORDER_ANY, .prepare = prepare_int_average, .run = run_int_average);

/* Means of stored integers: int32 sums of q - zero point, requantized with the element count in the multiplier. */

struct mean {
    struct qc_convert convert;
    struct qc_mean over;
    enum qc_dtype type;
    int32_t zero;
};

static bool prepare_int_mean(struct qc_prepare *p, struct qc_status *st)
{
    struct mean *s = QC_NEW_STATE(p, struct mean, st);
    if (!s || !qc_mean_of(&s->over, p, sizeof(int32_t), st)) return false;
    /* A requantize of the sum with scale sx / n: f(sx / f(sy*n)). */
    struct qc_scales to = p->out_scales[0], from = p->in_scales[0];
    float scale = to.scale[0] * (float)s->over.count;
    const int32_t none = 0;
    s->type = p->in[0].dtype;
    s->zero = from.zero_point[0];
    from.qparams = 0;
    const struct qc_convert_how how = {.contract = p->contract, .graph = p->graph, .divisor = s->over.count};
    if (qc_contract_is_float(p->contract)) {
        from.product = true;
        from.zero_point = &none;
        to.scale = &scale;
    }
    return qc_convert_of(&s->convert, (struct qc_convert_end){QC_I32, &from},
                         (struct qc_convert_end){p->out[0].dtype, &to}, -INFINITY, INFINITY, &how, p->arena, st);
}

#define QC_SUM(NAME, T)                                                                                                \
    static QC_INLINE void sum_##NAME##_body(int32_t *y, const T *x, int64_t n, int64_t ys, int64_t xs, int32_t zero)   \
    {                                                                                                                  \
        if (ys == 1 && xs == 1) {                                                                                      \
            QC_IVDEP                                                                                                   \
            for (int64_t i = 0; i < n; i++) y[i] += x[i] - zero;                                                       \
        } else if (ys == 0) {                                                                                          \
            int32_t sum = 0;                                                                                           \
            for (int64_t i = 0; i < n; i++) sum += x[i * xs] - zero;                                                   \
            *y += sum;                                                                                                 \
        } else {                                                                                                       \
            for (int64_t i = 0; i < n; i++) y[i * ys] += x[i * xs] - zero;                                             \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD(sum_##NAME, (int32_t * y, const T *x, int64_t n, int64_t ys, int64_t xs, int32_t zero),                    \
            (y, x, n, ys, xs, zero))
QC_SUM(u8, uint8_t)
QC_SUM(i8, int8_t)
QC_SUM(u16, uint16_t)
QC_SUM(i16, int16_t)

static void sum_each(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct mean *s = user;
    if (s->type == QC_I16)
        sum_i16(data[1], data[0], n, stride[1], stride[0], s->zero);
    else if (s->type == QC_U16)
        sum_u16(data[1], data[0], n, stride[1], stride[0], s->zero);
    else if (s->type == QC_I8 || s->type == QC_I4)
        sum_i8(data[1], data[0], n, stride[1], stride[0], s->zero);
    else
        sum_u8(data[1], data[0], n, stride[1], stride[0], s->zero);
}

static bool run_int_mean(const struct qc_run *r, struct qc_status *st)
{
    struct mean s = *(const struct mean *)r->state;
    struct qc_view wide, sums;
    qc_mean_sums(&sums, &wide, &s.over, r, QC_I32);
    qc_view_each(2, QC_VIEWS(&r->in[0], &wide), sum_each, &s);
    qc_convert_view(&s.convert, &r->out[0], &sums);
    return true;
}

QC_KERNEL(int_mean, .order = QC_ORDER_ANY, .prepare = prepare_int_mean, .run = run_int_mean);
