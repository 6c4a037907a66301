// SPDX-License-Identifier: Apache-2.0
#define _DEFAULT_SOURCE /* syscall */
#include "simq/core/kernel.h"

#include <stdbool.h>
#include <strings.h>

#include "base/simd.h"

static const char *const names[QC_ISA_COUNT] = {
#define QC_X(name, text) [QC_ISA_##name] = (text),
    QC_ISAS(QC_X)
#undef QC_X
};

#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>

/* CPUID leaf 7, subleaf 1, EAX bit 4 (Intel SDM, table 3-8). */
static bool has_avx_vnni(void)
{
    unsigned a, b, c, d;
    return QC_HAS_AVX2() && __get_cpuid_count(7, 1, &a, &b, &c, &d) && (a >> 4 & 1);
}

#if defined(__linux__)
#include <unistd.h>

/* CPUID leaf 7, EDX bits 24 and 25 (Intel SDM, table 3-8). Linux saves the large AMX registers only for a process
   that requested it (system call arch_prctl, ARCH_REQ_XCOMP_PERM of XTILEDATA). Repeated requests are allowed. */
static bool has_amx(void)
{
    enum { ARCH_PRCTL = 158, ASK = 0x1023, TILE_DATA = 18 };
    unsigned a, b, c, d;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (d >> 24 & 3) == 3 && syscall(ARCH_PRCTL, ASK, TILE_DATA) == 0;
}
#else
static bool has_amx(void)
{
    return false;
}
#endif

static bool has(enum qc_isa isa)
{
    switch (isa) {
    case QC_ISA_AMX: return has(QC_ISA_AVX512_VNNI) && has_amx();
    case QC_ISA_AVX512_VNNI: return QC_HAS_AVX512() && __builtin_cpu_supports("avx512vnni");
    case QC_ISA_AVX512: return QC_HAS_AVX512();
    case QC_ISA_AVX_VNNI: return has_avx_vnni();
    case QC_ISA_AVX2: return QC_HAS_AVX2();
    case QC_ISA_PLAIN: return true;
    case QC_ISA_NEON:
    case QC_ISA_NEON_DOT:
    case QC_ISA_NEON_I8MM:
    case QC_ISA_BEST:
    case QC_ISA_COUNT: break;
    }
    return false;
}
#elif defined(__aarch64__) && defined(__GNUC__)
#if defined(__linux__)
#include <sys/auxv.h>

/* AT_HWCAP bit 20, AT_HWCAP2 bit 13 (Linux, Documentation/arch/arm64/elf_hwcaps.rst). */
static bool has_dot(void)
{
    return getauxval(AT_HWCAP) >> 20 & 1;
}

static bool has_i8mm(void)
{
    return has_dot() && (getauxval(AT_HWCAP2) >> 13 & 1);
}
#else
/* Instructions of the compilation target. */
static bool has_dot(void)
{
#if defined(__ARM_FEATURE_DOTPROD)
    return true;
#else
    return false;
#endif
}

static bool has_i8mm(void)
{
#if defined(__ARM_FEATURE_DOTPROD) && defined(__ARM_FEATURE_MATMUL_INT8)
    return true;
#else
    return false;
#endif
}
#endif

static bool has(enum qc_isa isa)
{
    if (isa == QC_ISA_NEON_DOT) return has_dot();
    if (isa == QC_ISA_NEON_I8MM) return has_i8mm();
    return isa == QC_ISA_PLAIN || isa == QC_ISA_NEON;
}
#else
static bool has(enum qc_isa isa)
{
    return isa == QC_ISA_PLAIN;
}
#endif

enum qc_isa qc_isa_detect(enum qc_isa limit)
{
    const char *other = qc_simd_limit();
    if (limit == QC_ISA_BEST) limit = QC_ISA_COUNT - 1;
    for (enum qc_isa i = QC_ISA_PLAIN; other && i < limit; i++)
        if (strcasecmp(other, names[i]) == 0) limit = i;
    while (limit > QC_ISA_PLAIN && !has(limit)) limit--;
    return limit;
}

const char *qc_isa_name(enum qc_isa isa)
{
    return isa > QC_ISA_BEST && isa < QC_ISA_COUNT ? names[isa] : "?";
}
