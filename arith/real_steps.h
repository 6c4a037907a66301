// SPDX-License-Identifier: Apache-2.0
/* The float32 steps of contract "onnx", and quantization by every contract: of one number, for use inside loops, and of
   arrays. Values are held in float32, centred (q - zero point); lo and hi are the levels minus the zero point. f()
   marks a rounding to float32, RNE is half to even. NaN becomes the lowest level, as in ONNX Runtime on x86-64, whose
   maximum with the lower bound drops the NaN. */
#pragma once

#include "arith/contract.h"
#include "arith/float_level.h"

/* Returns min(max(x, lo), hi); NaN gives lo. */
static QC_INLINE float qc_clamp(float x, float lo, float hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

/* The same for real numbers: NaN stays NaN. */
static QC_INLINE float qc_clamp_real(float x, float lo, float hi)
{
    x = x < lo ? lo : x;
    return x > hi ? hi : x;
}

/* Real number to integer: clamp(RNE(f(x / scale))). */
static QC_INLINE float qc_level_of_real(float x, float scale, float lo, float hi, const bool native)
{
    return qc_clamp(qc_round_even(x / scale, native), lo, hi);
}

/* Accumulator to integer: RNE(clamp(f(acc * factor))). The factor is f(f(sx*sw) / sy), or f(sx / f(sy*n)) for the mean
   of n numbers. */
static QC_INLINE float qc_level_of_product(float acc, float factor, float lo, float hi, const bool native)
{
    return qc_round_even(qc_clamp(acc * factor, lo, hi), native);
}

/* Integer of one quantizer to that of another: clamp(RNE(f(f(v * from) / to))). */
static QC_INLINE float qc_level_of_quantizer(float v, float from, float to, float lo, float hi, const bool native)
{
    return qc_clamp(qc_round_even(v * from / to, native), lo, hi);
}

/* f(sx / f(sy*n)) */
static inline float qc_mean_factor(float input_scale, float output_scale, float n)
{
    return input_scale / (output_scale * n);
}

enum qc_rounding_kind {
    QC_ROUNDING_COPY,       /* y = x */
    QC_ROUNDING_DIVIDE,     /* y = f(x / b)                           into a product with an identity factor */
    QC_ROUNDING_QUANTIZE,   /* y = clamp(RNE(f(x / b)))               real to integers */
    QC_ROUNDING_DEQUANTIZE, /* y = f(x * a)                           integers to real; -0 counts as 0 */
    QC_ROUNDING_REQUANTIZE, /* y = RNE(clamp(f(x * a)))               accumulator to integers, a = f(f(sx*sw) / sy) */
    QC_ROUNDING_AWAY,       /* y = clamp(RHA(f(x / b)))               real to integers, half away from zero */
    QC_ROUNDING_FLOAT,      /* y = qc_float_level(f(x / b))           real to floating-point levels */
    QC_ROUNDING_RESCALE     /* y = clamp(RNE(f(f(x * a) / b)))        integers of one quantizer to those of another */
};

struct qc_rounding {
    enum qc_rounding_kind kind;
    size_t count; /* elements of a, b, lo and hi: 1, or the number of channels */
    const float *a, *b, *lo, *hi;
    int mantissa, least; /* QC_ROUNDING_FLOAT: those of struct qc_levels */
};

/* Returns the rounding of channel c alone. */
struct qc_rounding qc_rounding_channel(const struct qc_rounding *r, size_t c);

/* Computes y[i] for n numbers. If count > 1, number i belongs to channel i % count and n is a multiple of count. y may
   be x. */
void qc_rounding_run(const struct qc_rounding *r, float *y, const float *x, size_t n);

/* Means of a window. A mean that also changes qparams is a requantization of the sum: QC_FROM_SUM. */

/* Returns the mean of n integers whose qparams stay: sum / n, half away from zero. n > 0. TFLite's AveragePool and
   PyTorch's pools compute it so. */
int32_t qc_average_away(int64_t sum, int64_t n);

/* Contract "onnx", AveragePool. Returns the saturated level RNE(f(f(sum / n) / scale) + zero). `sum` is the float32
   sum of n real numbers, added in order. Source: ONNX Runtime's NhwcQLinearAveragePool on x86-64. */
static QC_INLINE float qc_average_level(float sum, float n, float scale, float zero, float lo, float hi,
                                        const bool native)
{
    return qc_clamp(qc_round_even(sum / n / scale + zero, native), lo, hi);
}
