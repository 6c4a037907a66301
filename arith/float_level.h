// SPDX-License-Identifier: Apache-2.0
/* Rounding to floating-point levels (struct qc_levels with a mantissa): half to even in units of the last place, then
   saturation. All numbers below 2^least have the same unit. ONNX's QuantizeLinear to a float of 4 or 8 bits and
   ml_dtypes do the same: a zero keeps its sign and NaN stays NaN.

   A number of exponent e has steps of 2^(e - mantissa). Adding 1.5 * 2^(e - mantissa + digits) leaves no bits for
   smaller steps, so the addition itself rounds. */
#pragma once

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
