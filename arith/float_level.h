// SPDX-License-Identifier: Apache-2.0
/* Rounding to floating-point levels (struct qc_levels with a mantissa): half to even in units of the last place, then
   saturation. All numbers below 2^least have the same unit. ONNX's QuantizeLinear to a float of 4 or 8 bits and
   ml_dtypes do the same: a zero keeps its sign and NaN stays NaN.

   A number of exponent e has steps of 2^(e - mantissa). Adding 1.5 * 2^(e - mantissa + digits) leaves no bits for
   smaller steps, so the addition itself rounds. */
#pragma once

#include <assert.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

#include "arith/params.h"
#include "base/simd.h"

/* lo and hi are levels. */
static QC_INLINE float qc_float_level(float x, float lo, float hi, int mantissa, int least)
{
    uint32_t bits, floor = (uint32_t)(least + 127) << 23;
    float magic;
    x = x < lo ? lo : x;
    x = x > hi ? hi : x;
    memcpy(&bits, &x, sizeof bits);
    bits &= UINT32_C(0x7f800000);
    bits = (bits > floor ? bits : floor) + ((uint32_t)(23 - mantissa) << 23 | UINT32_C(0x400000));
    memcpy(&magic, &bits, sizeof magic);
    return __builtin_copysignf((x + magic) - magic, x);
}

static QC_INLINE double qc_float_level_double(double x, double lo, double hi, int mantissa, int least)
{
    uint64_t bits, floor = (uint64_t)(least + 1023) << 52;
    double magic;
    x = x < lo ? lo : x;
    x = x > hi ? hi : x;
    memcpy(&bits, &x, sizeof bits);
    bits &= UINT64_C(0x7ff0000000000000);
    bits = (bits > floor ? bits : floor) + ((uint64_t)(52 - mantissa) << 52 | UINT64_C(0x8000000000000));
    memcpy(&magic, &bits, sizeof magic);
    return __builtin_copysign((x + magic) - magic, x);
}

/* Returns the level nearest to x minus the zero point, for integer and floating-point levels. */
static inline double qc_nearest_level(double x, struct qc_levels levels, int32_t zero_point)
{
    const double lo = (double)levels.lo - zero_point, hi = (double)levels.hi - zero_point;
    if (levels.mantissa) return qc_float_level_double(x, lo, hi, levels.mantissa, levels.least);
    x = nearbyint(x);
    return x > lo ? (x < hi ? x : hi) : lo;
}

/* Levels minus the zero point are numbered in ascending order; zero has number 0. The number of an integer is the
   integer itself. Floating-point levels have 2^mantissa numbers in each octave, and as many below 2^least. */

/* Returns the number of a floating-point level. */
static inline int64_t qc_float_level_number(double level, int mantissa, int least)
{
    int e = least;
    const double x = fabs(level);
    if (x >= ldexp(1, least)) {
        (void)frexp(x, &e);
        e--;
    }
    const int64_t n = (int64_t)ldexp(x, mantissa - e) + ((int64_t)(e - least) << mantissa);
    return level < 0 ? -n : n;
}

/* Returns the level of a number in units of the scale. A floating-point level is not limited to the largest one. */
static inline double qc_level_at(int64_t k, struct qc_levels levels)
{
    if (!levels.mantissa) return (double)k;
    const int64_t octave = (int64_t)1 << levels.mantissa, n = k < 0 ? -k : k,
                  e = n < octave ? 0 : (n >> levels.mantissa) - 1;
    const double level = ldexp((double)(n - e * octave), (int)e + levels.least - levels.mantissa);
    return k < 0 ? -level : level;
}

/* Returns where rounding changes from level k to level k + 1. */
static inline double qc_level_edge(int64_t k, struct qc_levels levels)
{
    return levels.mantissa ? (qc_level_at(k, levels) + qc_level_at(k + 1, levels)) / 2 : (double)k + 0.5;
}

/* Gives the numbers of the lowest and the highest level. */
static inline void qc_level_numbers(int64_t *first, int64_t *last, struct qc_levels levels, int32_t zero_point)
{
    *first = (int64_t)levels.lo - zero_point;
    *last = (int64_t)levels.hi - zero_point;
    if (!levels.mantissa) return;
    assert(zero_point == 0);
    *first = qc_float_level_number(levels.lo, levels.mantissa, levels.least);
    *last = qc_float_level_number(levels.hi, levels.mantissa, levels.least);
}

/* Returns the number of levels. */
static inline int64_t qc_level_count(struct qc_levels levels)
{
    int64_t first, last;
    qc_level_numbers(&first, &last, levels, 0);
    return last - first + 1;
}

/* Returns the distance of the levels around x, both in units of the scale. */
static inline double qc_level_step(double x, struct qc_levels levels)
{
    int e = levels.least;
    if (!levels.mantissa) return 1;
    if (fabs(x) >= ldexp(1, levels.least)) {
        (void)frexp(x, &e);
        e--;
    }
    return ldexp(1, e - levels.mantissa);
}

/* Gives the range of values that are not clipped: from half a step below the lowest level to half a step above the
   highest. */
static inline void qc_affine_reach(double *lo, double *hi, struct qc_affine p, struct qc_levels levels)
{
    const double least = (double)levels.lo - p.zero_point, most = (double)levels.hi - p.zero_point;
    *lo = (double)p.scale * (least - 0.5 * qc_level_step(least, levels));
    *hi = (double)p.scale * (most + 0.5 * qc_level_step(most, levels));
}
