// SPDX-License-Identifier: Apache-2.0
#include "arith/contract.h"

#include <string.h>

static const struct qc_contract_info contracts[QC_CONTRACT_COUNT] = {
#define QC_ROUNDING(constant, text, other, quantized, requantized, multiplied, about)                                  \
    [QC_CONTRACT_##constant] = {.name = (text),                                                                        \
                                .alias = (other),                                                                      \
                                .quantize = QC_QUANTIZE_##quantized,                                                   \
                                .requantize = QC_REQUANTIZE_##requantized,                                             \
                                .products = QC_PRODUCTS_##multiplied,                                                  \
                                .summary = (about)},
#include "arith/roundings.def"
};
_Static_assert(sizeof contracts / sizeof *contracts == QC_CONTRACT_COUNT, "a row per contract");

const struct qc_contract_info *qc_contract_info(enum qc_contract c)
{
    return &contracts[c];
}

bool qc_contract_is_float(enum qc_contract c)
{
    return contracts[c].requantize == QC_REQUANTIZE_FLOAT;
}

bool qc_contract_from_name(enum qc_contract *out, const char *name, struct qc_status *st)
{
    static const char names[] = ""
#define QC_ROUNDING(constant, text, other, quantized, requantized, multiplied, about) " " text
#include "arith/roundings.def"
        ;
    for (unsigned i = 0; i < QC_CONTRACT_COUNT; i++) {
        const struct qc_contract_info *c = &contracts[i];
        if (strcmp(name, c->name) != 0 && (!*c->alias || strcmp(name, c->alias) != 0)) continue;
        *out = (enum qc_contract)i;
        return true;
    }
    return qc_fail(st, QC_USAGE, "unknown rounding '%s'; the roundings are%s", name, names);
}

int32_t qc_round_level(float v, int32_t zero_point, struct qc_levels levels, enum qc_quantize_rule rule)
{
    const double lo = (double)levels.lo - zero_point, hi = (double)levels.hi - zero_point;
    if (!((double)v > lo)) return levels.lo;
    if ((double)v >= hi) return levels.hi;
    float r = v;
    switch (rule) {
    case QC_QUANTIZE_EVEN:
    case QC_QUANTIZE_RECIPROCAL: r = nearbyintf(v); break;
    case QC_QUANTIZE_AWAY: r = roundf(v); break;
    }
    return qc_saturate((int64_t)r + zero_point, levels);
}

int32_t qc_quantize_by(enum qc_contract c, float x, struct qc_affine p, struct qc_levels levels)
{
    const enum qc_quantize_rule rule = contracts[c].quantize;
    return qc_round_level(rule == QC_QUANTIZE_RECIPROCAL ? x * (1 / p.scale) : x / p.scale, p.zero_point, levels, rule);
}
