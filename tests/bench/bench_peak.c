// SPDX-License-Identifier: Apache-2.0
/* Measures the processor's peak multiply-add rate for scripts/benchmark_peak.py: for each of its instruction sets, the
   instructions of the innermost loops of simq/kernels/integer/, on registers alone, in 12 independent chains. Prints a
   line each: name of the set, i8 or i16, 10^9 multiply-adds per second (the best of several rounds). A line with
   "bytes": 10^9 sums per second that become bytes (simq/core/convert.h), in the first-level cache. */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include "simq/core/convert.h"
#include "simq/core/kernel.h"

enum { LOOPS = 200000, ROUNDS = 9 };

struct loop {
    enum qc_isa isa;
    const char *operands;
    unsigned products; /* of a round */
    void (*run)(long n);
};

/* Rows as a tile of two blocks of channels gives them. */
enum { SUM_ROWS = 64, SUM_CHANNELS = 32, SUMS = SUM_ROWS * SUM_CHANNELS, SUM_LOOPS = 1 << 12 };
static struct qc_convert_rows conversion = {.usable = true};
static int32_t sums[SUMS];
static uint8_t bytes[SUMS];

static void make_conversion(void)
{
    static float factor[SUM_CHANNELS], lo[SUM_CHANNELS], hi[SUM_CHANNELS];
    static int32_t zeros[SUM_CHANNELS];
    for (int i = 0; i < SUM_CHANNELS; i++) {
        factor[i] = 0x1p-8f;
        lo[i] = -3;
        hi[i] = 252;
        zeros[i] = 3;
    }
    for (int i = 0; i < SUMS; i++) sums[i] = 31 * i;
    conversion.rounding =
        (struct qc_rounding){.kind = QC_ROUNDING_REQUANTIZE, .count = SUM_CHANNELS, .a = factor, .lo = lo, .hi = hi};
    conversion.zeros = zeros;
    qc_convert_rows_of(&conversion);
}

#define QC_4(OP, a, b, c, d) OP(a) OP(b) OP(c) OP(d)
#define QC_12(OP) QC_4(OP, 0, 1, 2, 3) QC_4(OP, 4, 5, 6, 7) QC_4(OP, 8, 9, 10, 11)

#if defined(__x86_64__) && defined(__GNUC__)
#define QC_LOOP(name, body, ...)                                                                                       \
    static void name(long n)                                                                                           \
    {                                                                                                                  \
        for (long i = 0; i < n; i++) __asm__ volatile(body ::: __VA_ARGS__);                                           \
    }
#define QC_USED                                                                                                        \
    "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8", "xmm9", "xmm10", "xmm11", "xmm12",         \
        "xmm13", "xmm14", "xmm15"
#define QC_WIDE_YMM(r)                                                                                                 \
    "vpmaddwd %%ymm14, %%ymm15, %%ymm12\n\t"                                                                           \
    "vpaddd %%ymm12, %%ymm" #r ", %%ymm" #r "\n\t"
#define QC_PAIRS_YMM(r)                                                                                                \
    "vpmaddubsw %%ymm14, %%ymm15, %%ymm12\n\t"                                                                         \
    "vpmaddwd %%ymm13, %%ymm12, %%ymm12\n\t"                                                                           \
    "vpaddd %%ymm12, %%ymm" #r ", %%ymm" #r "\n\t"
#define QC_VNNI_YMM(r) "%{vex%} vpdpbusd %%ymm14, %%ymm15, %%ymm" #r "\n\t"
#define QC_WIDE_ZMM(r)                                                                                                 \
    "vpmaddwd %%zmm14, %%zmm15, %%zmm12\n\t"                                                                           \
    "vpaddd %%zmm12, %%zmm" #r ", %%zmm" #r "\n\t"
#define QC_PAIRS_ZMM(r)                                                                                                \
    "vpmaddubsw %%zmm14, %%zmm15, %%zmm12\n\t"                                                                         \
    "vpmaddwd %%zmm13, %%zmm12, %%zmm12\n\t"                                                                           \
    "vpaddd %%zmm12, %%zmm" #r ", %%zmm" #r "\n\t"
#define QC_VNNI_ZMM(r) "vpdpbusd %%zmm14, %%zmm15, %%zmm" #r "\n\t"
#define QC_VNNI_WIDE_ZMM(r) "vpdpwssd %%zmm14, %%zmm15, %%zmm" #r "\n\t"
static void bytes_avx2(long n)
{
    for (long i = 0; i < n; i++)
        qc_convert_rows_avx2(&conversion, 0, bytes, SUM_CHANNELS, sums, SUM_CHANNELS, SUM_ROWS, SUM_CHANNELS);
}

static void bytes_avx512(long n)
{
    for (long i = 0; i < n; i++)
        qc_convert_rows_run(&conversion, 0, bytes, SUM_CHANNELS, sums, SUM_CHANNELS, SUM_ROWS, SUM_CHANNELS);
}

QC_LOOP(wide_avx2, QC_12(QC_WIDE_YMM), QC_USED)
QC_LOOP(pairs_avx2, QC_12(QC_PAIRS_YMM), QC_USED)
QC_LOOP(narrow_avx_vnni, QC_12(QC_VNNI_YMM), QC_USED)
QC_LOOP(wide_avx512, QC_12(QC_WIDE_ZMM), QC_USED)
QC_LOOP(pairs_avx512, QC_12(QC_PAIRS_ZMM), QC_USED)
QC_LOOP(narrow_vnni, QC_12(QC_VNNI_ZMM), QC_USED)
QC_LOOP(wide_vnni, QC_12(QC_VNNI_WIDE_ZMM), QC_USED)

/* Palette 1, eight registers of 16 rows of 64 bytes. */
static void narrow_amx(long n)
{
    struct {
        uint8_t palette, start, none[14];
        uint16_t bytes[16];
        uint8_t rows[16];
    } shape = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        shape.bytes[i] = 64;
        shape.rows[i] = 16;
    }
    __asm__ volatile("ldtilecfg %0" ::"m"(shape));
    for (long i = 0; i < n; i++)
        __asm__ volatile("tdpbusd %tmm6, %tmm4, %tmm0\n\t"
                         "tdpbusd %tmm6, %tmm5, %tmm1\n\t"
                         "tdpbusd %tmm7, %tmm4, %tmm2\n\t"
                         "tdpbusd %tmm7, %tmm5, %tmm3");
    __asm__ volatile("tilerelease");
}

static const struct loop loops[] = {
    {QC_ISA_AVX2, "i8", 12 * 32, pairs_avx2},          {QC_ISA_AVX2, "i16", 12 * 16, wide_avx2},
    {QC_ISA_AVX_VNNI, "i8", 12 * 32, narrow_avx_vnni}, {QC_ISA_AVX_VNNI, "i16", 12 * 16, wide_avx2},
    {QC_ISA_AVX512, "i8", 12 * 64, pairs_avx512},      {QC_ISA_AVX512, "i16", 12 * 32, wide_avx512},
    {QC_ISA_AVX512_VNNI, "i8", 12 * 64, narrow_vnni},  {QC_ISA_AVX512_VNNI, "i16", 12 * 32, wide_vnni},
    {QC_ISA_AMX, "i8", 4 * 16 * 16 * 64, narrow_amx},  {QC_ISA_AMX, "i16", 12 * 32, wide_vnni},
    {QC_ISA_AVX2, "bytes", SUMS, bytes_avx2},          {QC_ISA_AVX_VNNI, "bytes", SUMS, bytes_avx2},
    {QC_ISA_AVX512, "bytes", SUMS, bytes_avx512},      {QC_ISA_AVX512_VNNI, "bytes", SUMS, bytes_avx512},
    {QC_ISA_AMX, "bytes", SUMS, bytes_avx512}};
#elif defined(__aarch64__) && defined(__GNUC__)
#define QC_LOOP(name, body)                                                                                            \
    static void name(long n)                                                                                           \
    {                                                                                                                  \
        for (long i = 0; i < n; i++)                                                                                   \
            __asm__ volatile(".arch armv8.2-a+dotprod+i8mm\n\t" body ::                                                \
                                 : "v0", "v1", "v2", "v3", "v4", "v5", "v6", "v7", "v8", "v9", "v10", "v11", "v16",    \
                                   "v17", "v18", "v19");                                                               \
    }
#define QC_WIDE(r)                                                                                                     \
    "smull v16.4s, v18.4h, v19.4h\n\t"                                                                                 \
    "smull2 v17.4s, v18.8h, v19.8h\n\t"                                                                                \
    "addp v16.4s, v16.4s, v17.4s\n\t"                                                                                  \
    "add v" #r ".4s, v" #r ".4s, v16.4s\n\t"
#define QC_PAIRS(r)                                                                                                    \
    "smull v16.8h, v18.8b, v19.8b\n\t"                                                                                 \
    "smull2 v17.8h, v18.16b, v19.16b\n\t"                                                                              \
    "addp v16.8h, v16.8h, v17.8h\n\t"                                                                                  \
    "sadalp v" #r ".4s, v16.8h\n\t"
#define QC_DOT(r) "sdot v" #r ".4s, v18.16b, v19.16b\n\t"
#define QC_I8MM(r) "usmmla v" #r ".4s, v18.16b, v19.16b\n\t"
QC_LOOP(wide_neon, QC_12(QC_WIDE))
QC_LOOP(pairs_neon, QC_12(QC_PAIRS))
QC_LOOP(narrow_dot, QC_12(QC_DOT))
QC_LOOP(narrow_i8mm, QC_12(QC_I8MM))

static const struct loop loops[] = {{QC_ISA_NEON, "i8", 12 * 16, pairs_neon},
                                    {QC_ISA_NEON, "i16", 12 * 8, wide_neon},
                                    {QC_ISA_NEON_DOT, "i8", 12 * 16, narrow_dot},
                                    {QC_ISA_NEON_DOT, "i16", 12 * 8, wide_neon},
                                    {QC_ISA_NEON_I8MM, "i8", 12 * 32, narrow_i8mm},
                                    {QC_ISA_NEON_I8MM, "i16", 12 * 8, wide_neon}};
#else
static const struct loop loops[] = {{QC_ISA_COUNT, "", 0, NULL}};
#endif

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int main(void)
{
    make_conversion();
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        const struct loop *l = &loops[i];
        const long loops_of = l->products == SUMS ? SUM_LOOPS : LOOPS;
        double best = 1e9;
        if (!l->run || qc_isa_detect(l->isa) != l->isa) continue;
        l->run(loops_of); /* until the clock has settled for these instructions */
        for (int k = 0; k < ROUNDS; k++) {
            const double begin = seconds();
            l->run(loops_of);
            const double took = seconds() - begin;
            best = took < best ? took : best;
        }
        printf("%s\t%s\t%.2f\n", qc_isa_name(l->isa), l->operands, 1e-9 * l->products * (double)loops_of / best);
    }
    return 0;
}
