// SPDX-License-Identifier: Apache-2.0
/* Requantization: integers of some qparams become integers of others, rounded once and saturated, by every contract.
   The functions for one number and for arrays give the same results bit for bit. */
#pragma once

#include "arith/contract.h"
#include "arith/fixed_point.h"
#include "base/arena.h"

/* Source of the integers; the float32 steps of contract "onnx" depend on it. */
enum qc_requantize_source {
    QC_FROM_PRODUCT,   /* accumulator of a convolution: scale input * weight[c], zero point 0 */
    QC_FROM_DENSE,     /* accumulator of a Gemm or MatMul: the same, but tflite multiplies a single weight scale by the
                          input's in float32 */
    QC_FROM_QUANTIZER, /* integers of another quantizer, of up to 32 bits: input scale and zero point */
    QC_FROM_SUM        /* sum of `divisor` integers minus their zero points; the result is their mean */
};

struct qc_requantize_def {
    enum qc_contract contract;
    enum qc_requantize_source source;
    float input_scale;
    int32_t input_zero_point;  /* QC_FROM_QUANTIZER; QC_FROM_SUM of contract "xnnpack"; else ignored */
    size_t count;              /* elements of weight_scale: 1 or the number of channels; 1 if there is no weight */
    const float *weight_scale; /* QC_FROM_PRODUCT and QC_FROM_DENSE only, else NULL */
    int64_t divisor;           /* QC_FROM_SUM only: at least 1; else ignored */
    bool wide; /* the accumulator has 64 bits, as for 16-bit data: tflite multiplies by 16 bits and rounds once */
    bool weight_zero;        /* the second operand has a zero point: XNNPACK does not compute such a product */
    struct qc_affine output; /* for centred results (q - zero point): zero point 0, and levels minus the zero point */
    struct qc_levels levels;
};

/* Prepared from a qc_requantize_def. Channel c uses element c of the arrays, or element 0 if count is 1.
     FLOAT    product  RNE(clamp(f(f(acc) * f(f(sx*sw)/sy))))      sum  RNE(clamp(f(f(acc) * f(sx / f(sy*n)))))
              quantizer     RNE(clamp(f(f(sx*(q-zx)) / sy)))            each + zy
     XNNPACK  product, dense as FLOAT (64-bit accumulators and weight_zero as DOUBLE, 64-bit dense as NEAREST)
              quantizer     (m * (q-zx) + 128) >> 8 with m = RNE(256 * f(sx/sy)), if f(sx/sy) is 2^-8 to 2^7, else
   DOUBLE sum           RNE(f(f(a * f(sum + n*zx)) + f(zy - f(f(n*zx) * a)))), a = f(f(sx/sy) * f(1/n)) others
   qc_fixed_multiply(acc or q-zx, fixed(sx*sw/sy in double)) + zy, clamped; equal scales (quantizer) copy. */
struct qc_requantizer {
    enum qc_requantize_rule rule;
    bool divides; /* FLOAT: f(f(x * factor) / divisor), else f(x * factor) */
    bool copies;  /* fixed point with equal scales: no multiplication */
    size_t count;
    const float *factor;          /* [count] FLOAT */
    float addend;                 /* FLOAT: added before the rounding */
    float divisor;                /* FLOAT */
    const struct qc_fixed *fixed; /* [count] fixed point */
    int32_t input_zero_point, zero_point;
    struct qc_levels levels;
};

/* Prepares a requantizer, with arrays in arena `a`. Fails with QC_BAD_INPUT if a scale is not positive and finite, if a
   ratio is 2^30 or more under a fixed-point contract, or if divisor < 1. */
bool qc_requantizer_of(struct qc_requantizer *out, const struct qc_requantize_def *def, struct qc_arena *a,
                       struct qc_status *st);

/* Returns the level of acc, which is an accumulator or a stored integer, by def.source. Rule FLOAT takes any acc. The
   fixed-point rules saturate it first: an accumulator to int32, a stored integer minus its zero point to 33 bits. */
int32_t qc_requantize_one(const struct qc_requantizer *r, size_t channel, int64_t acc);

struct qc_requantize_loop {
    enum qc_requantize_rule rule;
    bool divides, copies;
    bool raises;  /* DOUBLE: some channel has a left shift */
    size_t count; /* elements of the arrays: 1, or the number of channels */
    const float *factor;
    float addend, divisor;
    /* [count] each, as in struct qc_fixed_steps. */
    const int32_t *multiplier, *left, *right, *limit;
    const uint64_t *bias, *shift, *offset;
    int32_t input_zero_point, zero_point;
    struct qc_levels levels;
};

/* Prepares the loop, with arrays in arena `a`; the arrays of r are borrowed. Fails with QC_UNSUPPORTED if levels have
   more than 16 bits under a fixed-point contract. */
bool qc_requantize_loop_of(struct qc_requantize_loop *out, const struct qc_requantizer *r, struct qc_arena *a,
                           struct qc_status *st);

/* y[i] = qc_requantize_one(r, first + i, x[i]) for n numbers. If count > 1, first + n is at most count; otherwise
   `first` does not matter. x minus the input's zero point fits an int32. y may be x. */
void qc_requantize_run(const struct qc_requantize_loop *r, size_t first, int32_t *y, const int32_t *x, size_t n);

/* Functions of one 8-bit value as a table of 256 bytes, indexed by the stored byte. */

/* Sets x[b] to f(s * (q - z)), the real number of the byte b. */
void qc_table_ramp(float x[256], bool is_signed, struct qc_affine p);

/* Sets table[b] to the level of the real number x[b], by the contract's rule. */
void qc_table_quantize(uint8_t table[256], const float x[256], enum qc_contract c, struct qc_affine p,
                       struct qc_levels levels);

/* y[i] = table[x[i]]. y may be x. */
void qc_table_run(const uint8_t table[256], uint8_t *y, const uint8_t *x, size_t n);
