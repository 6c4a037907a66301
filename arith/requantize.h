// SPDX-License-Identifier: Apache-2.0
/* Integers of some qparams to integers of others, rounded once and saturated, by every contract: one number, and arrays
   with the same bits. */
#pragma once

#include "arith/fixed_point.h"
#include "base/arena.h"

/* Where integers come from, because the float32 steps of contract "onnx" differ. */
enum qc_requantize_source {
    QC_FROM_PRODUCT, /* accumulator of a convolution: scale input * weight[c], zero point 0 */
    QC_FROM_DENSE, /* of a Gemm or MatMul: the same, but tflite multiplies one weight scale by the input's in float32 */
    QC_FROM_QUANTIZER, /* integers of another quantizer, of up to 32 bits: input scale and zero point */
    QC_FROM_SUM /* sum of `divisor` integers of a quantizer, their zero points taken off already, becomes their mean */
};

struct qc_requantize_def {
    enum qc_contract contract;
    enum qc_requantize_source source;
    float input_scale;
    int32_t input_zero_point;  /* QC_FROM_QUANTIZER only, else 0 */
    size_t count;              /* of weight_scale: 1 or the channels; 1 where there is no weight */
    const float *weight_scale; /* QC_FROM_PRODUCT and QC_FROM_DENSE only, else NULL */
    int64_t divisor;           /* QC_FROM_SUM only: at least 1; else ignored */
    bool wide; /* an accumulator of 64 bits, as of 16-bit data: under tflite multiplied by 16 bits, rounded once */
    struct qc_affine output; /* for centred results (q - zero point): zero point 0 and levels less it */
    struct qc_levels levels;
};

/* Prepared from a def; channel c uses element c (or 0 when count is 1).
     FLOAT    product  RNE(clamp(f(f(acc) * f(f(sx*sw)/sy))))      sum  RNE(clamp(f(f(acc) * f(sx / f(sy*n)))))
              quantizer     RNE(clamp(f(f(sx*(q-zx)) / sy)))            each + zy
     others   qc_fixed_multiply(acc or q-zx, fixed(sx*sw/sy in double)) + zy, clamped; equal scales (quantizer) copy. */
struct qc_requantizer {
    enum qc_requantize_rule rule;
    bool divides; /* FLOAT: f(f(x * factor) / divisor), else f(x * factor) */
    bool copies;  /* fixed point, the same qparams: no multiply */
    size_t count;
    const float *factor;          /* [count] FLOAT */
    float divisor;                /* FLOAT */
    const struct qc_fixed *fixed; /* [count] fixed point */
    int32_t input_zero_point, zero_point;
    struct qc_levels levels;
};

/* Arrays are made in `a`. Errors (QC_BAD_INPUT): a scale that is not positive and finite, a ratio of 2^30 or more under
   a fixed-point contract, divisor < 1. */
bool qc_requantizer_of(struct qc_requantizer *out, const struct qc_requantize_def *def, struct qc_arena *a,
                       struct qc_status *st);

/* The level of acc (an accumulator or stored integer, by def.source). FLOAT takes any acc; the fixed-point rules
   saturate it at int32 first (a stored integer less its zero point at 33 bits). */
int32_t qc_requantize_one(const struct qc_requantizer *r, size_t channel, int64_t acc);

struct qc_requantize_loop {
    enum qc_requantize_rule rule;
    bool divides, copies;
    bool raises;  /* DOUBLE: some channel has a shift to the left */
    size_t count; /* of the arrays: 1, or the channels */
    const float *factor;
    float divisor;
    /* Of struct qc_fixed_steps. */
    const int32_t *multiplier, *left, *right, *limit;
    const uint64_t *bias, *shift, *offset;
    int32_t input_zero_point, zero_point;
    struct qc_levels levels;
};

/* Arrays are made in `a`; those of r are borrowed. Levels have at most 16 bits: QC_UNSUPPORTED for others under a
   fixed-point contract. */
bool qc_requantize_loop_of(struct qc_requantize_loop *out, const struct qc_requantizer *r, struct qc_arena *a,
                           struct qc_status *st);

/* y[i] = qc_requantize_one(r, first + i, x[i]) for n numbers (with one channel, `first` does not matter). With
   channels, first + n is at most their count. x less the input's zero point fits an int32. In place is fine. */
void qc_requantize_run(const struct qc_requantize_loop *r, size_t first, int32_t *y, const int32_t *x, size_t n);
