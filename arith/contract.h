// SPDX-License-Identifier: Apache-2.0
/* Rounding contracts: a property of the produced graph (docs/numerics.md). */
#pragma once

#include <stdint.h>

#include "arith/params.h"

enum qc_contract {
#define QC_ROUNDING(constant, name, alias, quantize, requantize, products, summary) QC_CONTRACT_##constant,
#include "arith/roundings.def"
    QC_CONTRACT_COUNT
};

/* How real numbers are rounded to levels. */
enum qc_quantize_rule {
    QC_QUANTIZE_EVEN,      /* f(x / scale), half to even (RNE) */
    QC_QUANTIZE_AWAY,      /* f(x / scale), half away from zero (RHA) */
    QC_QUANTIZE_RECIPROCAL /* f(x * f(1 / scale)), half to even */
};

/* How integers are rounded when their qparams change. */
enum qc_requantize_rule {
    QC_REQUANTIZE_FLOAT,   /* float32 steps, half to even */
    QC_REQUANTIZE_DOUBLE,  /* fixed point, rounded at 2^-31 half upward and at 2^shift half away */
    QC_REQUANTIZE_UPWARD,  /* fixed point, rounded once, floor(x + 1/2) */
    QC_REQUANTIZE_NEAREST, /* fixed point, rounded once, half away */
    QC_REQUANTIZE_XNNPACK  /* accumulators and means in float32 steps; others in fixed point of 8 to 21 bits */
};

/* How products of 8-bit integers are summed. */
enum qc_product_rule {
    QC_PRODUCTS_EXACT,
    QC_PRODUCTS_PAIRS /* sums of two saturate at 16 bits (qc_pair_product) in the kernels that add such pairs */
};

struct qc_contract_info {
    const char *name, *alias; /* alias "" for none */
    enum qc_quantize_rule quantize;
    enum qc_requantize_rule requantize;
    enum qc_product_rule products;
    const char *summary;
};

const struct qc_contract_info *qc_contract_info(enum qc_contract c);
/* True if the contract requantizes everything in float32 steps, as "onnx"; otherwise it uses fixed point. */
bool qc_contract_is_float(enum qc_contract c);
/* Finds a contract by name or alias. Fails with QC_USAGE and the list of names if it is unknown. */
bool qc_contract_from_name(enum qc_contract *out, const char *name, struct qc_status *st);

/* Returns saturate(round(real level) + zero point) by the contract's rule of quantize. NaN gives the lowest level. */
int32_t qc_quantize_by(enum qc_contract c, float x, struct qc_affine p, struct qc_levels levels);

/* Returns round(clamp(v, lo - zp, hi - zp)) + zp. The bounds are integers, so clamping after rounding gives the same.
   NaN gives the lowest level. */
int32_t qc_round_level(float v, int32_t zero_point, struct qc_levels levels, enum qc_quantize_rule rule);

/* Sum of two products of 8-bit integers as x86 without VNNI computes it (vpmaddubsw): returns a0 * b0 + a1 * b1,
   saturated to [-32768, 32767]. a0, a1: 0 to 255; b0, b1: -128 to 127. */
static inline int32_t qc_pair_product(int32_t a0, int32_t b0, int32_t a1, int32_t b1)
{
    const int32_t sum = a0 * b0 + a1 * b1;
    return sum > INT16_MAX ? INT16_MAX : sum < INT16_MIN ? INT16_MIN : sum;
}
