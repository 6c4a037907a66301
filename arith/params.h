// SPDX-License-Identifier: Apache-2.0
/* Scale, zero point and levels; their choice from a range; quantization of one number by contract "onnx"
   (docs/numerics.md). real = scale * (q - zero_point). The scale is a positive normal float32; the zero point is an
   integer within the type. */
#pragma once

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"

/* The levels that a value may take. Without a mantissa they are the integers from lo to hi. With a mantissa they are
   the floating-point numbers with that many mantissa bits and the smallest normal number 2^least
   (arith/float_level.h). Some of these are fractions; their zero point is 0. */
struct qc_levels {
    int32_t lo, hi;
    int mantissa, least; /* 0, 0: all integers */
};

struct qc_affine {
    float scale;
    int32_t zero_point;
};

enum qc_symmetry { QC_ASYMMETRIC, QC_SYMMETRIC };

/* Smallest scale that is chosen: with a smaller one x / scale could overflow, or the scale would be denormal. */
#define QC_SCALE_MIN 1.17549435e-38f /* FLT_MIN */

/* Returns the scale and zero point that cover [lo, hi], widened to include 0, which is then exactly representable.
   asymmetric: scale = (hi - lo) / (levels.hi - levels.lo), zero point = RNE(levels.lo - lo / scale), clamped to levels.
   symmetric: scale = max(|lo|, |hi|) / levels.hi and zero point 0 on signed levels; on unsigned levels the zero point
   is the middle level (levels.hi + 1) / 2 when lo < 0, else 0 with scale = hi / levels.hi. A range of width 0 gives
   scale 1 and the zero point 0 (or the nearest level). Never infinite, NaN or denormal. Source: ONNX QuantizeLinear-13
   / DynamicQuantizeLinear-11. */
struct qc_affine qc_affine_from_range(double lo, double hi, struct qc_levels levels, enum qc_symmetry symmetry);

/* The same with a power of two as the scale: the next one below the scale that covers the range, or above it. */
struct qc_affine qc_affine_power_of_two(double lo, double hi, struct qc_levels levels, enum qc_symmetry symmetry,
                                        bool above);

/* Returns the least shift s such that 127 * 2^s covers `most` steps of an accumulator: the scale of a bias of 8 bits is
   that of the accumulator times 2^s. At most 15, which DPUs allow (AMD Quark 0.13, refine.py: adjust_shift_bias). */
unsigned qc_short_bias_shift(double most);

/* Fails with QC_BAD_INPUT, naming `what`, if the scale is not positive and finite. */
bool qc_scale_usable(float scale, const char *what, struct qc_status *st);

/* Returns the level nearest to x. */
static inline int32_t qc_saturate(int64_t x, struct qc_levels levels)
{
    if (x < levels.lo) return levels.lo;
    return x > levels.hi ? levels.hi : (int32_t)x;
}

/* Contract "onnx": returns saturate(RNE(x / scale) + zero point). NaN gives the lowest level, as in ONNX Runtime on
   x86-64. */
static inline int32_t qc_quantize_one(float x, struct qc_affine p, struct qc_levels levels)
{
    float r = nearbyintf(x / p.scale);
    float lo = (float)(levels.lo - p.zero_point), hi = (float)(levels.hi - p.zero_point);
    r = r > lo ? (r < hi ? r : hi) : lo;
    return qc_saturate((int64_t)r + p.zero_point, levels); /* INT32_MAX is no float32, so r may exceed it */
}

static inline float qc_dequantize_one(int32_t q, struct qc_affine p)
{
    return (float)(q - p.zero_point) * p.scale;
}

/* Rounds numbers as ONNX's DynamicQuantizeLinear does: to uint8, with the range of their extremes and 0. */

struct qc_affine qc_dynamic_parameters(const float *x, size_t n);
/* y[n]: scale * (q - zero point) of each number. y may be x. */
void qc_dynamic_round(float *y, const float *x, size_t n);
