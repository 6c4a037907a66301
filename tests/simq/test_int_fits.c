// SPDX-License-Identifier: Apache-2.0
/* Which products are added two at a time in 16 bits: those whose weights and data cannot leave them, and no others; the
   sums are exact either way. All scales are 1. */
#include <sys/resource.h>

#include "one_number.h"
#include "simq/kernels/integer/tile.h"
#include "tests/check.h"
#include "tests/graph_reader/graph_reader.h"

#define GEMM(X, X_ZERO, W, K, WEIGHTS)                                                                                 \
    "graph \"g\" opset 13\n"                                                                                           \
    "qparams @1 quantizer \"x\" " X " asymmetric bound scale 1 zero " X_ZERO "\n"                                      \
    "qparams @2 quantizer \"w\" " W " asymmetric bound scale 1 zero 0\n"                                               \
    "qparams @3 product @1 @2\n"                                                                                       \
    "input %1 \"x\" f32[1," K "]\n"                                                                                    \
    "%2 : " X "[1," K "] @1 = Quantize(%1)\n"                                                                          \
    "const %3 \"w\" " W "[" K ",1] @2 = {" WEIGHTS "}\n"                                                               \
    "%4 : i32[1,1] @3 axis 1 = Gemm(%2, %3)\n"                                                                         \
    "%5 : f32[1,1] = Dequantize(%4)\n"                                                                                 \
    "output \"y\" %5\n"

/* fits: data from 0 on; fits_signed: less 128. */
static const struct {
    const char *name, *graph;
    bool fits, fits_signed;
    float data[5], sum;
} cases[] = {
    {"at the upper end", GEMM("u8", "0", "i8", "4", "64, 64, 127, 1"), true, true, {255, 255, 255, 255}, 65280},
    {"above it", GEMM("u8", "0", "i8", "4", "65, 64, 0, 0"), false, true, {255, 255, 1, 1}, 32895},
    {"second pair", GEMM("u8", "0", "i8", "4", "0, 0, 127, 2"), false, true, {1, 1, 255, 255}, 32895},
    {"at the lower end", GEMM("u8", "0", "i8", "4", "-100, -28, 0, -128"), true, true, {255, 255, 255, 255}, -65280},
    {"below it", GEMM("u8", "0", "i8", "4", "-100, -29, 0, 0"), false, true, {255, 255, 1, 1}, -32895},
    {"two signs", GEMM("u8", "0", "i8", "4", "127, -128, -128, 127"), true, true, {255, 255, 255, 0}, -32895},
    {"neighbours of two pairs", GEMM("u8", "0", "i8", "4", "0, 127, 127, 0"), true, true, {255, 255, 255, 9}, 64770},
    {"the lowest twice", GEMM("u8", "0", "i8", "4", "-128, -128, 0, 0"), false, false, {0, 1, 3, 3}, -128},
    {"one that is alone", GEMM("u8", "0", "i8", "5", "1, 1, 1, 1, 127"), true, true, {1, 1, 1, 1, 255}, 32389},
    {"int8 data", GEMM("i8", "0", "i8", "4", "64, 64, -64, -64"), true, true, {127, 127, -128, -128}, 32640},
    {"too much for int8 data", GEMM("i8", "-128", "i8", "4", "90, 90, 0, 0"), false, true, {255, 255, 1, 1}, 45900},
    {"small data", GEMM("u4", "0", "i8", "4", "127, 127, -128, -127"), true, true, {15, 15, 15, 0}, 1890},
};

Test(int_fits, pairs_are_added_in_16_bits_where_they_fit)
{
    for (enum qc_isa limit = QC_ISA_PLAIN; limit < QC_ISA_COUNT; limit++) {
        const enum qc_isa isa = qc_isa_detect(limit);
        const struct qc_tile_set s = qc_tile_set_of(isa);
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            const bool fits = !s.pairs || (s.is_signed ? cases[i].fits_signed : cases[i].fits);
            QC_FREED char *text = NULL;
            const struct qc_plan_options options = {.isa = isa};
            const float y = one_number(&text, cases[i].graph, cases[i].data, &options, cases[i].name);
            cr_expect_eq(y, cases[i].sum, "%s, %s: %g", cases[i].name, qc_isa_name(isa), (double)y);
            cr_expect(strstr(text, fits ? " i8" : " i16"), "%s, %s: %s", cases[i].name, qc_isa_name(isa), text);
            cr_expect(!strstr(text, fits ? " i16" : " i8 copied]"), "%s, %s: %s", cases[i].name, qc_isa_name(isa),
                      text);
        }
    }
}

/* Sanitizers need the address space; an emulator has no limit of it. */
#if !defined(QC_TEST_SANITIZED) && !defined(QC_TEST_EMULATED)

static size_t address_space(void)
{
    unsigned long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    cr_assert(f && fscanf(f, "%lu", &pages) == 1);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

/* The bound on the sums of 2^20 channels needs 16 MiB. Without them the plan fails; it does not take other kernels. */
Test(int_fits, a_bound_without_memory_is_an_error)
{
    enum { CHANNELS = 1 << 20 };
    static const char before[] = "graph \"g\" opset 13\n"
                                 "qparams @1 quantizer \"x\" u8 asymmetric bound scale 1 zero 0\n"
                                 "qparams @2 quantizer \"w\" i8 asymmetric bound scale 1 zero 0\n"
                                 "qparams @3 product @1 @2\n"
                                 "input %1 \"x\" f32[1,1]\n"
                                 "%2 : u8[1,1] @1 = Quantize(%1)\n"
                                 "const %3 \"w\" i8[1,1048576] @2 = {1",
                      behind[] = "}\n"
                                 "%4 : i32[1,1048576] @3 axis 1 = Gemm(%2, %3)\n"
                                 "%5 : f32[1,1048576] = Dequantize(%4)\n"
                                 "output \"y\" %5\n";
    OWN(qc_graph) *g = NULL;
    struct qc_plan *p = NULL;
    char *text = malloc(sizeof before + sizeof behind + 2 * CHANNELS), *at = text;
    cr_assert(text);
    at += sprintf(at, "%s", before);
    for (int i = 1; i < CHANNELS; i++) at += sprintf(at, ",1");
    at += sprintf(at, "%s", behind);
    MUST(qc_graph_parse(&g, text, (size_t)(at - text), ST));
    free(text);
    const struct qc_shape shape = QC_SHAPE(1, 1);
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    const rlim_t most = limit.rlim_cur;
    limit.rlim_cur = address_space() + (12 << 20);
    cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
    const bool ok = qc_plan_new(&p, g, &shape, NULL, ST);
    limit.rlim_cur = most;
    setrlimit(RLIMIT_AS, &limit);
    cr_expect(!ok && failure.code == QC_MACHINE && strstr(failure.message, "16777216"), "%s", failure.message);
    if (ok) qc_plan_free(p);
}

#endif
