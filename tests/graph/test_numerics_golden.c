// SPDX-License-Identifier: Apache-2.0
/* Rounding contracts against golden_rounding.txt: exact rational arithmetic of make_golden_rounding.py. */
#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "graph/numerics.h"

static float of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static double double_of_bits(uint64_t u)
{
    double d;
    memcpy(&d, &u, sizeof d);
    return d;
}

static unsigned index_of(const char *name, const char *const *names, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(name, names[i]) == 0) return i;
    cr_assert_fail("no '%s'", name);
    return 0;
}

static enum qc_contract contract_of(const char *name)
{
    struct qc_status st = QC_STATUS_INIT;
    enum qc_contract c = QC_CONTRACT_ONNX;
    cr_assert(qc_contract_from_name(&c, name, &st), "%s", name);
    return c;
}

static bool fixed_line(const char *line)
{
    uint64_t bits;
    int32_t multiplier, shift;
    if (sscanf(line, "fixed %" SCNx64 " %" SCNd32 " %" SCNd32, &bits, &multiplier, &shift) != 3) return false;
    const struct qc_fixed m = qc_fixed_of(double_of_bits(bits));
    cr_assert(m.multiplier == multiplier && m.shift == shift, "%s: %d %d", line, m.multiplier, m.shift);
    return true;
}

static bool multiply_line(const char *line)
{
    char contract[32];
    int32_t x, multiplier, shift, want;
    if (sscanf(line, "multiply %31s %" SCNd32 " %" SCNd32 " %" SCNd32 " %" SCNd32, contract, &x, &multiplier, &shift,
               &want) != 5)
        return false;
    const struct qc_fixed m = {.multiplier = multiplier, .shift = shift};
    const int32_t got = qc_fixed_multiply(qc_contract_info(contract_of(contract))->requantize, x, m);
    cr_assert_eq(got, want, "%s: %d", line, got);
    return true;
}

static bool quantize_line(const char *line)
{
    char contract[32];
    uint32_t x, s;
    int32_t z, lo, hi, want;
    if (sscanf(line, "quantize %31s %" SCNx32 " %" SCNx32 " %" SCNd32 " %" SCNd32 " %" SCNd32 " %" SCNd32, contract, &x,
               &s, &z, &lo, &hi, &want) != 7)
        return false;
    const struct qc_affine p = {.scale = of_bits(s), .zero_point = z};
    const struct qc_levels levels = {.lo = lo, .hi = hi};
    const int32_t got = qc_quantize_by(contract_of(contract), of_bits(x), p, levels);
    cr_assert_eq(got, want, "%s: %d", line, got);
    if (contract_of(contract) == QC_CONTRACT_ONNX)
        cr_assert_eq(qc_quantize_one(of_bits(x), p, levels), want, "%s", line);
    return true;
}

static bool requantize_line(const char *line)
{
    static const char *const sources[] = {
        [QC_FROM_PRODUCT] = "product", [QC_FROM_DENSE] = "dense", [QC_FROM_SITE] = "site", [QC_FROM_SUM] = "sum"};
    char contract[32], source[32];
    uint32_t sx, sw, sy;
    int32_t zx, zy, lo, hi, want;
    int64_t n, acc;
    if (sscanf(line,
               "requantize %31s %31s %" SCNx32 " %" SCNd32 " %" SCNx32 " %" SCNx32 " %" SCNd32 " %" SCNd32 " %" SCNd32
               " %" SCNd64 " %" SCNd64 " %" SCNd32,
               contract, source, &sx, &zx, &sw, &sy, &zy, &lo, &hi, &n, &acc, &want) != 12)
        return false;
    struct qc_status st = QC_STATUS_INIT;
    struct qc_arena *a = qc_arena_new();
    const float weight = of_bits(sw);
    const struct qc_requantize_def d = {.contract = contract_of(contract),
                                        .source = (enum qc_requantize_source)index_of(source, sources, 4),
                                        .input_scale = of_bits(sx),
                                        .input_zero_point = zx,
                                        .count = 1,
                                        .weight_scale = &weight,
                                        .divisor = n,
                                        .output = {.scale = of_bits(sy), .zero_point = zy},
                                        .levels = {.lo = lo, .hi = hi}};
    struct qc_requantizer r;
    cr_assert(qc_requantizer_of(&r, &d, a, &st), "%s", line);
    const int32_t got = qc_requantize_one(&r, 0, acc);
    cr_assert_eq(got, want, "%s: %d", line, got);
    qc_arena_free(a);
    return true;
}

static bool merge_line(const char *line)
{
    static const char *const ops[] = {[QC_MERGE_ADD] = "add", [QC_MERGE_SUB] = "sub", [QC_MERGE_MUL] = "mul"};
    char contract[32], op[32];
    uint32_t sa, sb, sc;
    int32_t za, zb, zc, lo, hi, a, b, want;
    if (sscanf(line,
               "merge %31s %31s %" SCNx32 " %" SCNd32 " %" SCNx32 " %" SCNd32 " %" SCNx32 " %" SCNd32 " %" SCNd32
               " %" SCNd32 " %" SCNd32 " %" SCNd32 " %" SCNd32,
               contract, op, &sa, &za, &sb, &zb, &sc, &zc, &lo, &hi, &a, &b, &want) != 13)
        return false;
    struct qc_status st = QC_STATUS_INIT;
    struct qc_merger m;
    cr_assert(qc_merger_of(&m, contract_of(contract), (enum qc_merge_op)index_of(op, ops, 3),
                           (struct qc_affine){.scale = of_bits(sa), .zero_point = za},
                           (struct qc_affine){.scale = of_bits(sb), .zero_point = zb},
                           (struct qc_affine){.scale = of_bits(sc), .zero_point = zc},
                           (struct qc_levels){.lo = lo, .hi = hi}, &st),
              "%s", line);
    const int32_t got = qc_merge_one(&m, a, b);
    cr_assert_eq(got, want, "%s: %d", line, got);
    return true;
}

Test(numerics, contracts_are_what_exact_arithmetic_gives)
{
    static bool (*const kinds[])(const char *) = {fixed_line, multiply_line, quantize_line, requantize_line,
                                                  merge_line};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    unsigned seen[KINDS] = {0};
    char line[256];
    FILE *f = fopen(QC_TEST_SOURCE "/tests/graph/golden_rounding.txt", "r");
    cr_assert(f);
    while (fgets(line, sizeof line, f)) {
        line[strcspn(line, "\n")] = '\0';
        if (*line == '#') continue;
        unsigned k = 0;
        while (k < KINDS && !kinds[k](line)) k++;
        cr_assert_lt(k, KINDS, "not understood: %s", line);
        seen[k]++;
    }
    fclose(f);
    for (unsigned k = 0; k < KINDS; k++) cr_assert_geq(seen[k], 100, "kind %u", k);
}
