// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the rounding of graph/numerics.h over arrays, with the same bits. Values are held centred (q - zero point) in
   f32. Everything is float32 at each step; f() marks a rounding to float32, RNE is half to even. NaN becomes the lowest level,
   as in ONNX Runtime on x86-64 (its maximum with the lower bound drops the NaN). */
#ifndef QC_SIMQ_ROUNDING_H
#define QC_SIMQ_ROUNDING_H

#include "base/arena.h"
#include "simq/kernel.h"
#include "base/simd.h"

enum qc_rounding_kind {
    QC_ROUNDING_COPY,       /* y = x */
    QC_ROUNDING_DIVIDE,     /* y = f(x / b)                           into a product with an identity factor */
    QC_ROUNDING_QUANTIZE,   /* y = clamp(RNE(f(x / b)))               real to integers */
    QC_ROUNDING_DEQUANTIZE, /* y = f(x * a)                           integers to real; -0 counts as 0 */
    QC_ROUNDING_REQUANTIZE, /* y = RNE(clamp(f(x * a)))               accumulator to integers, a = f(f(sx*sw) / sy) */
    QC_ROUNDING_AWAY,       /* y = clamp(RHA(f(x / b)))               real to integers, half away from zero */
    QC_ROUNDING_RESCALE     /* y = clamp(RNE(f(f(x * a) / b)))        integers of one site to those of another */
};

struct qc_rounding {
    enum qc_rounding_kind kind;
    size_t count; /* of a, b, lo and hi: 1, or the channels */
    const float *a, *b, *lo, *hi;
};

/* How values in `from` become values in `to` (identity: real). lo and hi clamp the result further, in its own units
   (-INFINITY and INFINITY: not at all); NaN stays NaN where the result is not integers. Arrays are made in `a`. */
bool qc_rounding_of(struct qc_rounding *out, const struct qc_scales *from, const struct qc_scales *to, float lo,
                    float hi, struct qc_arena *a, struct qc_status *st);

/* Channel c alone. */
struct qc_rounding qc_rounding_channel(const struct qc_rounding *r, size_t c);

/* y[i] for n numbers; with count > 1, number i belongs to channel i % count, and n is a multiple of it. In place is fine. */
void qc_rounding_run(const struct qc_rounding *r, float *y, const float *x, size_t n);

/* The same for views of equal dims and any strides (in place: the very same view); channels run along `axis`. */
void qc_rounding_view(const struct qc_rounding *r, int axis, const struct qc_view *y, const struct qc_view *x);

/* min(max(x, lo), hi) with NaN to lo. */
static QC_INLINE float qc_clamp(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

#endif
