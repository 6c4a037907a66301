// SPDX-License-Identifier: Apache-2.0
#include "arith/real_steps.h"

#include <assert.h>

struct qc_rounding qc_rounding_channel(const struct qc_rounding *r, size_t c)
{
    struct qc_rounding one = *r;
    if (r->count == 1) return one;
    one.count = 1;
    one.a += c;
    one.b += c;
    one.lo += c;
    one.hi += c;
    return one;
}

/* Half away from zero. The fraction is exact, so halves are recognised exactly. */
static QC_INLINE float round_away(float x)
{
    const float whole = __builtin_truncf(x);
    return __builtin_fabsf(x - whole) >= 0.5f ? whole + __builtin_copysignf(1, x) : whole;
}

/* One loop per kind. `step` is 0 if all elements share the parameters, 1 if each element has its own. */
static QC_INLINE void row_body(const bool native, const struct qc_rounding *r, float *y, const float *x, size_t n,
                               const size_t step)
{
    const float *a = r->a, *b = r->b, *lo = r->lo, *hi = r->hi;
    const int mantissa = r->mantissa, least = r->least;
#define QC_ROW(expression)                                                                                             \
    QC_IVDEP                                                                                                           \
    for (size_t i = 0; i < n; i++) {                                                                                   \
        const size_t c = i * step;                                                                                     \
        const float v = x[i];                                                                                          \
        y[i] = (expression);                                                                                           \
    }                                                                                                                  \
    break
    switch (r->kind) {
    case QC_ROUNDING_COPY: QC_ROW(qc_clamp_real(v, lo[c], hi[c]));
    case QC_ROUNDING_DIVIDE: QC_ROW(qc_clamp_real(v / b[c], lo[c], hi[c]));
    case QC_ROUNDING_QUANTIZE: QC_ROW(qc_level_of_real(v, b[c], lo[c], hi[c], native));
    case QC_ROUNDING_AWAY: QC_ROW(qc_clamp(round_away(v / b[c]), lo[c], hi[c]));
    case QC_ROUNDING_FLOAT: QC_ROW(qc_float_level(v / b[c], lo[c], hi[c], mantissa, least));
    case QC_ROUNDING_DEQUANTIZE:
        QC_ROW(qc_clamp_real((v + 0.0f) * a[c], lo[c], hi[c])); /* + 0 turns -0 into 0: integers have one zero */
    case QC_ROUNDING_REQUANTIZE: QC_ROW(qc_level_of_product(v, a[c], lo[c], hi[c], native));
    case QC_ROUNDING_RESCALE: QC_ROW(qc_level_of_quantizer(v, a[c], b[c], lo[c], hi[c], native));
    }
#undef QC_ROW
}

QC_VECTOR_ROUND_EXPORTED(qc_rounding_run, (const struct qc_rounding *r, float *y, const float *x, size_t n),
                         (r, y, x, n))
{
    const size_t count = r->count;
    if (count == 1) {
        const float a = *r->a, b = *r->b, lo = *r->lo, hi = *r->hi; /* y cannot change them */
        const struct qc_rounding one = {r->kind, 1, &a, &b, &lo, &hi, r->mantissa, r->least};
        row_body(native, &one, y, x, n, 0);
    } else {
        for (size_t i = 0; i < n; i += count) row_body(native, r, y + i, x + i, count, 1);
    }
}

int32_t qc_average_away(int64_t sum, int64_t n)
{
    assert(n > 0);
    return (int32_t)((sum >= 0 ? sum + n / 2 : sum - n / 2) / n);
}
