// SPDX-License-Identifier: Apache-2.0
/* Rounding contracts against golden_rounding.txt: exact rational arithmetic of make_golden_rounding.py. */
#include <inttypes.h>

#include "arith/qbinary.h"
#include "arith/requantize.h"
#include "tests/check.h"

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
    enum qc_contract c = QC_CONTRACT_ONNX;
    cr_assert(qc_contract_from_name(&c, name, ST), "%s", name);
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
        [QC_FROM_PRODUCT] = "product", [QC_FROM_DENSE] = "dense", [QC_FROM_QUANTIZER] = "site", [QC_FROM_SUM] = "sum"};
    char contract[32], source[32];
    uint32_t sx, sw, sy;
    int32_t zx, zy, lo, hi, want;
    int64_t n, acc;
    if (sscanf(line,
               "requantize %31s %31s %" SCNx32 " %" SCNd32 " %" SCNx32 " %" SCNx32 " %" SCNd32 " %" SCNd32 " %" SCNd32
               " %" SCNd64 " %" SCNd64 " %" SCNd32,
               contract, source, &sx, &zx, &sw, &sy, &zy, &lo, &hi, &n, &acc, &want) != 12)
        return false;
    struct qc_arena *a = qc_arena_new();
    const float weight = of_bits(sw);
    const struct qc_requantize_def d =
        FIELDS(.contract = contract_of(contract), .source = (enum qc_requantize_source)index_of(source, sources, 4),
               .input_scale = of_bits(sx), .input_zero_point = zx, .count = 1, .weight_scale = &weight, .divisor = n,
               .output = {.scale = of_bits(sy), .zero_point = zy}, .levels = {.lo = lo, .hi = hi});
    struct qc_requantizer r;
    cr_assert(qc_requantizer_of(&r, &d, a, ST), "%s", line);
    const int32_t got = qc_requantize_one(&r, 0, acc);
    cr_assert_eq(got, want, "%s: %d", line, got);
    if (acc - zx >= INT32_MIN && acc - zx <= INT32_MAX && lo >= -65536 && hi <= 65536) {
        struct qc_requantize_loop loop;
        const int32_t one = (int32_t)acc;
        int32_t y;
        cr_assert(qc_requantize_loop_of(&loop, &r, a, ST), "%s", line);
        qc_requantize_run(&loop, 0, &y, &one, 1);
        cr_assert_eq(y, want, "in a loop: %s: %d", line, y);
    }
    qc_arena_free(a);
    return true;
}

static struct qc_levels levels_of(const char *type)
{
    static const char *const names[] = {"u8", "i8", "u16", "i16", "u4", "i4"};
    static const struct qc_levels levels[] = {{.lo = 0, .hi = 255},   {.lo = -128, .hi = 127},
                                              {.lo = 0, .hi = 65535}, {.lo = -32768, .hi = 32767},
                                              {.lo = 0, .hi = 15},    {.lo = -8, .hi = 7}};
    return levels[index_of(type, names, 6)];
}

/* One number at a time, then all of the line in a loop. */
static bool qbinary_line(const char *line)
{
    static const char *const ops[] = {[QC_QBINARY_ADD] = "add", [QC_QBINARY_SUB] = "sub", [QC_QBINARY_MUL] = "mul"};
    char contract[32], op[8], type[3][8];
    uint32_t scale[3];
    int32_t zero[3], a[64], b[64], want[64], got[64];
    int at = 0, used = 0;
    size_t n = 0;
    if (sscanf(line,
               "qbinary %31s %7s %7s %7s %7s %" SCNx32 " %" SCNd32 " %" SCNx32 " %" SCNd32 " %" SCNx32 " %" SCNd32 "%n",
               contract, op, type[0], type[1], type[2], &scale[0], &zero[0], &scale[1], &zero[1], &scale[2], &zero[2],
               &at) != 11)
        return false;
    while (n < 64 && sscanf(line + at, "%" SCNd32 " %" SCNd32 " %" SCNd32 "%n", &a[n], &b[n], &want[n], &used) == 3) {
        at += used;
        n++;
    }
    cr_assert(n > 0 && line[at] == '\0', "%s", line);
    struct qc_affine p[3];
    struct qc_levels levels[3];
    struct qc_qbinary m;
    for (int i = 0; i < 3; i++) {
        p[i] = (struct qc_affine){.scale = of_bits(scale[i]), .zero_point = zero[i]};
        levels[i] = levels_of(type[i]);
    }
    cr_assert(qc_qbinary_of(&m, contract_of(contract), (enum qc_qbinary_op)index_of(op, ops, 3), p, levels, ST),
              "%s: %s", line, failure.message);
    for (size_t i = 0; i < n; i++) {
        got[i] = qc_qbinary_one(&m, a[i], b[i]);
        cr_assert_eq(got[i], want[i], "%s: %d %d gives %d", line, a[i], b[i], got[i]);
    }
    qc_qbinary_run(&m, got, a, b, n);
    cr_assert_eq(memcmp(got, want, n * sizeof *got), 0, "in a loop: %s", line);
    return true;
}

Test(arith, contracts_are_what_exact_arithmetic_gives)
{
    static bool (*const kinds[])(const char *) = {fixed_line, multiply_line, quantize_line, requantize_line,
                                                  qbinary_line};
    enum { KINDS = sizeof kinds / sizeof *kinds };
    unsigned seen[KINDS] = {0};
    char line[1024];
    FILE *f = fopen(QC_TEST_SOURCE "/tests/arith/golden_rounding.txt", "r");
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
