// SPDX-License-Identifier: Apache-2.0
/* Means of stored integers: int32 sums of q - zero point, then a requantize with the number of them in the multiplier.
 */
#include <math.h>

#include "simq/core/convert.h"
#include "simq/core/integer.h"
#include "simq/core/mean.h"

struct mean {
    struct qc_convert convert;
    struct qc_mean over;
    enum qc_dtype type;
    int32_t zero;
};

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    struct mean *s = QC_NEW(p->arena, struct mean, st);
    if (!s || !qc_mean_of(&s->over, p, sizeof(int32_t), st)) return false;
    /* As a requantize of the sum with scale sx / n: f(sx / f(sy*n)). */
    struct qc_scales to = p->out_scales[0], from = p->in_scales[0];
    float scale = to.scale[0] * (float)s->over.count;
    int32_t none = 0;
    s->type = p->in[0].dtype;
    s->zero = from.zero_point[0];
    from.qparams = 0;
    from.zero_point = &none;
    p->state = s;
    const struct qc_convert_how how = {.contract = p->contract, .graph = p->graph, .divisor = s->over.count};
    if (qc_contract_is_float(p->contract)) {
        from.product = true;
        to.scale = &scale;
    }
    return qc_convert_of(&s->convert, QC_I32, &from, p->out[0].dtype, &to, -INFINITY, INFINITY, &how, p->arena, st);
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

static bool run(const struct qc_run *r, struct qc_status *st)
{
    struct mean s = *(const struct mean *)r->state;
    struct qc_view wide, sums;
    (void)st;
    qc_mean_sums(&sums, &wide, &s.over, r, QC_I32);
    const struct qc_view *const views[] = {&r->in[0], &wide};
    qc_view_each(2, views, sum_each, &s);
    qc_convert_view(&s.convert, &r->out[0], &sums);
    return true;
}

QC_KERNEL(int_mean, .order = QC_ORDER_ANY, .prepare = prepare, .run = run);
