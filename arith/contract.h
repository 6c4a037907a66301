// SPDX-License-Identifier: Apache-2.0
/* Rounding contracts: a property of the produced graph (docs/numerics.md). */
#pragma once

#include "arith/params.h"

enum qc_contract {
#define QC_ROUNDING(constant, name, alias, quantize, requantize, products, summary) QC_CONTRACT_##constant,
#include "arith/roundings.def"
    QC_CONTRACT_COUNT
};

/* Of real numbers: half to even (RNE) or half away from zero (RHA). */
enum qc_quantize_rule { QC_QUANTIZE_EVEN, QC_QUANTIZE_AWAY };

/* Of integers that change their qparams. */
enum qc_requantize_rule {
    QC_REQUANTIZE_FLOAT,  /* float32 steps, half to even */
    QC_REQUANTIZE_DOUBLE, /* fixed point, rounded at 2^-31 half upward and at 2^shift half away */
    QC_REQUANTIZE_UPWARD, /* fixed point, rounded once, floor(x + 1/2) */
    QC_REQUANTIZE_NEAREST /* fixed point, rounded once, half away */
};

/* Of two integers of 8 bits that are summed up. */
enum qc_product_rule {
    QC_PRODUCTS_EXACT,
    QC_PRODUCTS_PAIRS /* two at a time saturate at 16 bits (arith/pair_product.h), where the kernel takes such pairs */
};

struct qc_contract_info {
    const char *name, *alias; /* alias "" for none */
    enum qc_quantize_rule quantize;
    enum qc_requantize_rule requantize;
    enum qc_product_rule products;
    const char *summary;
};

const struct qc_contract_info *qc_contract_info(enum qc_contract c);
/* Does it requantize in float32 steps, as "onnx"? Else in fixed point. */
bool qc_contract_is_float(enum qc_contract c);
/* By name or alias. Unknown: false and QC_USAGE, naming those there are. */
bool qc_contract_from_name(enum qc_contract *out, const char *name, struct qc_status *st);

/* saturate(round(f(x / scale)) + zero point), rounded by the contract's rule; NaN gives the lowest level. */
int32_t qc_quantize_by(enum qc_contract c, float x, struct qc_affine p, struct qc_levels levels);

/* round(clamp(v, lo - zp, hi - zp)) + zp. The bounds are integers, so that it does not matter whether they come before
   or behind the rounding. NaN: the lowest level. */
int32_t qc_round_level(float v, int32_t zero_point, struct qc_levels levels, enum qc_quantize_rule rule);
