// SPDX-License-Identifier: Apache-2.0
/* Fixed-point numbers of the contracts tflite and qnn-*: positive real numbers as multiplier * 2^(shift - 31), and
   products with them. Results are exact but for the rounding that the rule names; nothing overflows. */
#pragma once

#include "arith/contract.h"
#include "base/simd.h"

/* multiplier is in [2^30, 2^31), or 0 if the number is below 2^-32, which a fixed-point contract takes as zero.
   Source: TFLite QuantizeMultiplier; gemmlowp's fixed-point documentation. */
struct qc_fixed {
    int32_t multiplier, shift;
};

/* Converts m, which is positive and finite: frexp, then multiplier = RHA(significand * 2^31). A multiplier of 2^31 is
   halved and the shift is raised by one. */
struct qc_fixed qc_fixed_of(double m);

/* The same for a ratio of scales. Fails with QC_BAD_INPUT if m is 2^30 or more. The shift is at most 31: a ratio just
   below 2^30 rounds to 2^30. */
bool qc_fixed_ratio(struct qc_fixed *out, double m, struct qc_status *st);

/* gemmlowp SaturatingRoundingDoublingHighMul: (2ab) / 2^32, half upward; INT32_MIN * INT32_MIN gives INT32_MAX. */
int32_t qc_high_mul(int32_t a, int32_t b);
/* gemmlowp RoundingDivideByPOT: x / 2^n, half away from zero; 0 <= n <= 31. */
int32_t qc_divide_by_pot(int32_t x, int n);

/* Returns x * m, rounded by one of the three fixed-point rules. |x| < 2^32, -31 <= shift <= 31; the result is below
   2^63.
     DOUBLE           MultiplyByQuantizedMultiplier: floor(x * 2^max(shift, 0) * M / 2^31 + 1/2), then
                      / 2^max(-shift, 0), half away. TFLite gives the same if x * 2^max(shift, 0) fits 32 bits and is
                      undefined otherwise
     UPWARD, NEAREST  rounds the exact product once, as QNN's fixed_point_multiply if that does not overflow */
int64_t qc_fixed_multiply_wide(enum qc_requantize_rule rule, int64_t x, struct qc_fixed m);
/* The same, saturated to int32. */
int32_t qc_fixed_multiply(enum qc_requantize_rule rule, int64_t x, struct qc_fixed m);

static inline int32_t qc_saturate32(int64_t x)
{
    return qc_saturate(x, (struct qc_levels){.lo = INT32_MIN, .hi = INT32_MAX});
}

/* Returns x * 2^n, saturated to int32; 0 <= n <= 31. */
static inline int32_t qc_fixed_raise(int32_t x, int n)
{
    return qc_saturate32((int64_t)x * (INT64_C(1) << n));
}

/* ------------------------------------------------- the same functions for loops over arrays

   The results equal those of the functions above if they are saturated afterwards to levels of at most 17 bits:
   - The first rounding of DOUBLE is half upward for both signs: (ab + 2^30) >> 31. The low 32 bits of a logical shift
     equal those of an arithmetic shift. INT32_MIN * INT32_MIN cannot occur, because multipliers are positive.
   - AVX2 has no 64-bit arithmetic shift. A logical shift of the number plus 2^62, minus 2^62 >> shift, is the same.
   - Rounding half away once equals rounding half upward after 1 is subtracted from a negative product.
   - With a left shift of s, numbers outside [-2^(31-s), 2^(31-s) - 1] give at least 2^29 and saturate anyway, so they
     are clamped to these bounds.
   - A shift of 31 (its multiplier is 2^30) is done as a shift of 30: all numbers but 0 saturate with either. */
struct qc_fixed_steps {
    int32_t multiplier, left, right; /* DOUBLE: x << left, high half of the product, >> right */
    int32_t limit;                   /* bound of the clamping before a left shift */
    uint64_t bias, shift, offset;    /* UPWARD, NEAREST: + bias (2^62 + the half), >> shift, - offset (2^62 >> shift) */
};

static QC_INLINE struct qc_fixed_steps qc_fixed_steps_of(struct qc_fixed m)
{
    const int32_t s = m.shift < 30 ? m.shift : 30;
    const uint64_t right = (uint64_t)(31 - s), one = UINT64_C(1) << 62;
    return (struct qc_fixed_steps){.multiplier = m.multiplier,
                                   .left = s > 0 ? s : 0,
                                   .right = s < 0 ? -s : 0,
                                   .limit = s > 0 ? (int32_t)((UINT32_C(1) << (31 - s)) - 1) : INT32_MAX,
                                   .bias = one + (UINT64_C(1) << (right - 1)),
                                   .shift = right,
                                   .offset = one >> right};
}

static QC_INLINE int32_t qc_clamp_int(int32_t x, int32_t lo, int32_t hi)
{
    x = x > lo ? x : lo;
    return x < hi ? x : hi;
}

/* Rule DOUBLE without a left shift. The multiplier is that of struct qc_fixed_steps; right is 0 to 31. */
static QC_INLINE int32_t qc_multiply_twice(int32_t x, int32_t multiplier, int32_t right)
{
    const uint64_t product = (uint64_t)((int64_t)x * multiplier) + (UINT64_C(1) << 30);
    const int32_t high = (int32_t)(uint32_t)(product >> 31);
    const int32_t mask = (int32_t)((UINT32_C(1) << right) - 1), remainder = high & mask,
                  threshold = (mask >> 1) + (high < 0);
    return (high >> right) + (remainder > threshold);
}

/* Returns x << left of the x clamped to [-limit - 1, limit]. */
static QC_INLINE int32_t qc_raise_left(int32_t x, int32_t left, int32_t limit)
{
    return (int32_t)((uint32_t)qc_clamp_int(x, -limit - 1, limit) << left);
}

static QC_INLINE int32_t qc_multiply_once(int32_t x, int32_t multiplier, int32_t limit, uint64_t bias, uint64_t shift,
                                          uint64_t offset, const bool away)
{
    const int32_t v = qc_clamp_int(x, -limit - 1, limit);
    const uint64_t less = away ? (uint64_t)(uint32_t)(v < 0) : 0;
    return (int32_t)(uint32_t)((((uint64_t)((int64_t)v * multiplier) + bias - less) >> shift) - offset);
}
