// SPDX-License-Identifier: Apache-2.0
/* Everything about rounding, saturation and the choice of scale and zero point from a range (docs/numerics.md).
   real = scale * (q - zero_point); scale a positive normal float32; zero point an integer inside the type. */
#ifndef QC_GRAPH_NUMERICS_H
#define QC_GRAPH_NUMERICS_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "graph/dtype.h"

/* The integer levels a value may take: those of its type, or [-hi, hi] of a restricted one. */
struct qc_levels {
    int32_t lo, hi;
};

/* Levels of a type; restricted drops the lowest level of a signed type. */
struct qc_levels qc_levels_of(enum qc_dtype dtype, bool restricted);

struct qc_affine {
    float scale;
    int32_t zero_point;
};

enum qc_symmetry { QC_ASYMMETRIC, QC_SYMMETRIC };

/* Smallest scale ever chosen: below it x / scale could overflow to infinity or the scale be denormal. */
#define QC_SCALE_MIN 1.17549435e-38f /* FLT_MIN */

/* Scale and zero point that cover [lo, hi], widened to include 0 (which is then exactly representable).
   asymmetric: scale = (hi - lo) / (levels.hi - levels.lo), zero point = RNE(levels.lo - lo / scale), clamped to the levels.
   symmetric: scale = max(|lo|, |hi|) / levels.hi and zero point 0 on signed levels; on unsigned levels the zero point is the
   middle level (levels.hi + 1) / 2 when lo < 0, else 0 with scale = hi / levels.hi.
   A range of width 0 gives scale 1 and the zero point 0 (or the nearest level). Never infinite, NaN or denormal.
   Source: ONNX QuantizeLinear-13 / DynamicQuantizeLinear-11. */
struct qc_affine qc_affine_from_range(double lo, double hi, struct qc_levels levels, enum qc_symmetry symmetry);

/* Contract "onnx": saturate(RNE(x / scale) + zero point); NaN gives the lowest level, as in ONNX Runtime on x86-64. */
static inline int32_t qc_quantize_one(float x, struct qc_affine p, struct qc_levels levels)
{
    float r = nearbyintf(x / p.scale);
    float lo = (float)(levels.lo - p.zero_point), hi = (float)(levels.hi - p.zero_point);
    r = r > lo ? (r < hi ? r : hi) : lo;
    return (int32_t)r + p.zero_point;
}

static inline float qc_dequantize_one(int32_t q, struct qc_affine p)
{
    return (float)(q - p.zero_point) * p.scale;
}

/* Rounding contracts: a property of the produced graph. */
enum qc_contract {
#define QC_ROUNDING(constant, name, alias, quantize, requantize, summary) QC_CONTRACT_##constant,
#include "graph/roundings.def"
    QC_CONTRACT_COUNT
};

/* Of real numbers: half to even (RNE) or half away from zero (RHA). */
enum qc_quantize_rule { QC_QUANTIZE_EVEN, QC_QUANTIZE_AWAY };

/* Of integers that change their space. */
enum qc_requantize_rule {
    QC_REQUANTIZE_FLOAT,  /* float32 steps, half to even */
    QC_REQUANTIZE_DOUBLE, /* fixed point, rounded at 2^-31 half upward and at 2^shift half away */
    QC_REQUANTIZE_UPWARD, /* fixed point, rounded once, floor(x + 1/2) */
    QC_REQUANTIZE_NEAREST /* fixed point, rounded once, half away */
};

struct qc_contract_info {
    const char *name, *alias; /* alias "" for none */
    enum qc_quantize_rule quantize;
    enum qc_requantize_rule requantize;
    const char *summary;
};

const struct qc_contract_info *qc_contract_info(enum qc_contract c);
/* By name or alias. Unknown: false and QC_USAGE, naming those there are. */
bool qc_contract_from_name(enum qc_contract *out, const char *name, struct qc_status *st);

/* saturate(round(f(x / scale)) + zero point), rounded by the contract's rule; NaN gives the lowest level. */
int32_t qc_quantize_by(enum qc_contract c, float x, struct qc_affine p, struct qc_levels levels);

/* A positive real number as multiplier * 2^(shift - 31), multiplier in [2^30, 2^31), or multiplier 0 for what a fixed-point
   contract takes for zero (m below 2^-32). Source: TFLite QuantizeMultiplier; gemmlowp's fixed-point documentation. */
struct qc_fixed {
    int32_t multiplier, shift;
};

/* frexp; multiplier = RHA(significand * 2^31), where 2^31 is halved and the shift raised. m positive and finite. */
struct qc_fixed qc_fixed_of(double m);

/* gemmlowp SaturatingRoundingDoublingHighMul: (2ab) / 2^32, half upward; INT32_MIN * INT32_MIN saturates to INT32_MAX. */
int32_t qc_high_mul(int32_t a, int32_t b);
/* gemmlowp RoundingDivideByPOT: x / 2^n, half away from zero; 0 <= n <= 31. */
int32_t qc_divide_by_pot(int32_t x, int n);

/* x * m, rounded by the rule (one of the three fixed-point rules).
   DOUBLE is MultiplyByQuantizedMultiplier: high_mul(x << max(shift, 0)) then divide_by_pot; the left shift wraps in 32 bits.
   shift >= -31. UPWARD and NEAREST round the exact product once and saturate at int32 (QNN's fixed_point_multiply, where that does not overflow). */
int32_t qc_fixed_multiply(enum qc_requantize_rule rule, int32_t x, struct qc_fixed m);

/* Where integers come from, because the float32 steps of contract "onnx" differ. */
enum qc_requantize_source {
    QC_FROM_PRODUCT, /* accumulator of a convolution: scale input * weight[c], zero point 0 */
    QC_FROM_DENSE, /* of a Gemm or MatMul: the same, but that tflite multiplies one weight scale by the input's in float32 */
    QC_FROM_SITE, /* integers of another site: input scale and zero point */
    QC_FROM_SUM   /* sum of `divisor` integers of a site, their zero points taken off already, becomes their mean */
};

struct qc_requantize_def {
    enum qc_contract contract;
    enum qc_requantize_source source;
    float input_scale;
    int32_t input_zero_point;  /* QC_FROM_SITE only, else 0 */
    size_t count;              /* of weight_scale: 1 or the channels; 1 where there is no weight */
    const float *weight_scale; /* QC_FROM_PRODUCT and QC_FROM_DENSE only, else NULL */
    int64_t divisor;           /* QC_FROM_SUM only: at least 1; else ignored */
    struct qc_affine output;   /* for centred results (q - zero point): zero point 0 and levels less it */
    struct qc_levels levels;
};

/* Integers of one space to integers of another, rounded once and saturated. Prepared from a def; channel c uses element c (or 0 when count is 1).
     FLOAT    product  RNE(clamp(f(f(acc) * f(f(sx*sw)/sy))))      sum  RNE(clamp(f(f(acc) * f(sx / f(sy*n)))))
              site     RNE(clamp(f(f(sx*(q-zx)) / sy)))            each + zy
     others   qc_fixed_multiply(acc or q-zx, fixed(sx*sw/sy in double)) + zy, clamped; equal scales (site) copy. */
struct qc_requantizer {
    enum qc_requantize_rule rule;
    bool divides; /* FLOAT: f(f(x * factor) / divisor), else f(x * factor) */
    bool copies;  /* fixed point, one space: no multiply */
    size_t count;
    const float *factor;       /* [count] FLOAT */
    float divisor;             /* FLOAT */
    const int32_t *multiplier; /* [count] fixed point */
    const int32_t *shift;      /* [count] fixed point */
    int32_t input_zero_point, zero_point;
    struct qc_levels levels;
};

/* Arrays are made in `a`. Errors (QC_BAD_INPUT): a scale that is not positive and finite, a ratio of 2^30 or more under a fixed-point
   contract, divisor < 1. */
bool qc_requantizer_of(struct qc_requantizer *out, const struct qc_requantize_def *def, struct qc_arena *a,
                       struct qc_status *st);

/* The level of acc (an accumulator or stored integer, by def.source). FLOAT takes any acc; the fixed-point rules saturate it at int32 first. */
int32_t qc_requantize_one(const struct qc_requantizer *r, size_t channel, int64_t acc);

/* Add, Sub and Mul of two affine values, by contract: prepared once, then one function per pair of stored integers.
     FLOAT            Add ra=f(sa/sc) rb=f(sb/sc) k=f(zc - fma(ra,za,f(rb*zb))): RNE(fma(a,ra,fma(b,rb,k)))
                      Mul RNE(f(f(f(va*vb) * f(f(sa*sb)/sc)) + zc))
                      Sub RNE(f(f(f(va*sa) - f(vb*sb)) / sc)) + zc: ONNX Runtime has no integer Sub, it dequantizes, subtracts and quantizes
     DOUBLE (tflite)  Add and Sub: both operands << left_shift (20; 15 for int16), times s/(2 max), summed, times 2 max/(2^left_shift sc)
                      (16 bits with zero points, which TFLite does not have: left shift 14);  Mul: (va*vb) times f(f(sa*sb)/sc)
     UPWARD, NEAREST  Add and Sub: each operand requantized to the result's space without saturation, summed (QNN)
                      Mul: (va*vb) times sa*sb/sc in double */
enum qc_merge_op { QC_MERGE_ADD, QC_MERGE_SUB, QC_MERGE_MUL };

struct qc_merger {
    enum qc_merge_op op;
    enum qc_requantize_rule rule;
    float ra, rb, k, m;      /* FLOAT; Sub: the scales of a, b, c in ra, rb, k */
    int left_shift;          /* DOUBLE */
    struct qc_fixed a, b, c; /* fixed point; multiplier 0 with `copies` of that operand */
    bool copies_a, copies_b; /* UPWARD, NEAREST: the operand's scale is the result's */
    int32_t za, zb, zc;
    struct qc_levels levels;
};

/* Errors (QC_BAD_INPUT): scales that are not positive and finite, a ratio out of range. */
bool qc_merger_of(struct qc_merger *out, enum qc_contract contract, enum qc_merge_op op, struct qc_affine a,
                  struct qc_affine b, struct qc_affine c, struct qc_levels levels, struct qc_status *st);
int32_t qc_merge_one(const struct qc_merger *m, int32_t a, int32_t b);

/* Mean of n integers that stay in their space (tflite's AveragePool and PyTorch-like pools of one space): sum / n, half away from zero. n > 0. */
int32_t qc_average_away(int64_t sum, int64_t n);

#endif
