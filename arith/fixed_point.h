// SPDX-License-Identifier: Apache-2.0
/* Fixed-point numbers of the contracts tflite and qnn-*: a positive real number as multiplier * 2^(shift - 31), and
   products with it. Everything is exact up to the rounding that the rule names; nothing wraps. */
#pragma once

#include "arith/contract.h"
#include "base/simd.h"

/* multiplier in [2^30, 2^31), or multiplier 0 for what a fixed-point contract takes for zero (m below 2^-32).
   Source: TFLite QuantizeMultiplier; gemmlowp's fixed-point documentation. */
struct qc_fixed {
    int32_t multiplier, shift;
};

/* frexp; multiplier = RHA(significand * 2^31), where 2^31 is halved and the shift raised. m positive and finite. */
struct qc_fixed qc_fixed_of(double m);

/* The same of a ratio of scales. Errors (QC_BAD_INPUT): 2^30 and more. The shift is at most 31 (which is 2^30 less what
   a multiplier of 31 bits tells apart from it). */
bool qc_fixed_ratio(struct qc_fixed *out, double m, struct qc_status *st);

/* gemmlowp SaturatingRoundingDoublingHighMul: (2ab) / 2^32, half upward; INT32_MIN * INT32_MIN gives INT32_MAX. */
int32_t qc_high_mul(int32_t a, int32_t b);
/* gemmlowp RoundingDivideByPOT: x / 2^n, half away from zero; 0 <= n <= 31. */
int32_t qc_divide_by_pot(int32_t x, int n);

/* x * m for |x| < 2^32, rounded by the rule (one of the three fixed-point rules); -31 <= shift <= 31. Below 2^63.
     DOUBLE           MultiplyByQuantizedMultiplier: floor(x * 2^max(shift, 0) * M / 2^31 + 1/2), then
                      / 2^max(-shift, 0), half away.
                      TFLite's is the same where x * 2^max(shift, 0) fits 32 bits, and undefined elsewhere
     UPWARD, NEAREST  the exact product is rounded once (QNN's fixed_point_multiply, where that does not overflow) */
int64_t qc_fixed_multiply_wide(enum qc_requantize_rule rule, int64_t x, struct qc_fixed m);
/* The same, saturated at int32. */
int32_t qc_fixed_multiply(enum qc_requantize_rule rule, int64_t x, struct qc_fixed m);

static inline int32_t qc_saturate32(int64_t x)
{
    return qc_saturate(x, (struct qc_levels){.lo = INT32_MIN, .hi = INT32_MAX});
}

/* x * 2^n, saturated; 0 <= n <= 31. */
static inline int32_t qc_fixed_raise(int32_t x, int n)
{
    return qc_saturate32((int64_t)x * (INT64_C(1) << n));
}

/* ------------------------------------------------- inside loops over arrays; the same numbers

   Why these forms are the functions above, where the result is brought into levels of at most 17 bits afterwards:
   - The first rounding of DOUBLE is half upward for either sign, so that it is (ab + 2^30) >> 31, and the low 32 bits
     of a logical shift are those of an arithmetic one. INT32_MIN * INT32_MIN cannot happen: multipliers are positive.
   - A 64-bit arithmetic shift (which AVX2 lacks) is a logical one of the number plus 2^62, less 2^62 >> shift.
   - Rounding half away once is rounding half upward of the product less one where it is negative.
   - Where the shift is to the left by s, numbers outside [-2^(31-s), 2^(31-s) - 1] give at least 2^29, so that they may
     be cut off there; and so do, with a shift of 31 (whose multiplier is 2^30), all but 0 with a shift of 30, so that
   no shift of 31 has to be done. */
struct qc_fixed_steps {
    int32_t multiplier, left, right; /* DOUBLE: x << left, high half of the product, >> right */
    int32_t limit;                   /* see above */
    uint64_t bias, shift, offset;    /* once: + bias (2^62 and the half), >> shift, - offset (2^62 >> shift) */
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

/* DOUBLE without a shift to the left; multiplier as that of steps, right 0 to 31. */
static QC_INLINE int32_t qc_multiply_twice(int32_t x, int32_t multiplier, int32_t right)
{
    const uint64_t product = (uint64_t)((int64_t)x * multiplier) + (UINT64_C(1) << 30);
    const int32_t high = (int32_t)(uint32_t)(product >> 31);
    const int32_t mask = (int32_t)((UINT32_C(1) << right) - 1), remainder = high & mask,
                  threshold = (mask >> 1) + (high < 0);
    return (high >> right) + (remainder > threshold);
}

/* x << left, cut off. */
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
