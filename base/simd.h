// SPDX-License-Identifier: Apache-2.0
/* Vector code without -march: a loop is written once as an always-inlined body in plain C, and compiled for the
   baseline and, on x86-64, for AVX2 with FMA and for AVX-512; the processor decides at run time. The build forbids
   contraction
   (-ffp-contract=off), so that all of them give the same bits, as long as the body does not depend on the order of a
   sum.

     static QC_INLINE void scale_body(float *y, const float *x, size_t n, float s) { for (...) y[i] = x[i] * s; }
     QC_SIMD(scale, (float *y, const float *x, size_t n, float s), (y, x, n, s))

   defines `static void scale(float *y, ...)`. QC_SIMD_ROUND does the same for bodies that round: they take a constant
   `const bool native` first and hand it to qc_round_even. */
#pragma once

#include <stdbool.h>

#define QC_INLINE inline __attribute__((always_inline))

/* The environment variable ONEDNN_MAX_CPU_ISA or DNNL_MAX_CPU_ISA, which caps the instructions of all code (names:
   simq/core/isa.h); NULL: it is not set. */
const char *qc_simd_limit(void);
/* The widest vectors that it allows: 128, 256 or 512 bits. Read when the program is loaded. */
extern int qc_simd_bits;

/* Before a loop whose iterations do not depend on each other, though its arrays may be the very same memory (in place).
 */
#if defined(__clang__)
#define QC_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* where the cost model says no, that is no fault */
#elif defined(__GNUC__)
#define QC_IVDEP _Pragma("GCC ivdep")
#else
#define QC_IVDEP
#endif

/* Round half to even. native: the function is compiled for SSE4.1 or better, which has an instruction for it. Otherwise
   |x| + 2^23 - 2^23 is the exact rounding of |x| < 2^23, because the unit in the last place of the sum is 1; larger
   numbers are integers. The same bits either way, sign of zero included. */
static QC_INLINE float qc_round_even(float x, const bool native)
{
    if (native) return __builtin_nearbyintf(x);
    const float t = __builtin_fabsf(x), r = (t + 0x1p23f) - 0x1p23f;
    return t < 0x1p23f ? __builtin_copysignf(r, x) : x;
}

#if defined(__x86_64__) && defined(__GNUC__)
#define QC_TARGET_AVX2 __attribute__((target("avx2,fma")))
#define QC_TARGET_AVX512 __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#define QC_HAS_AVX2() (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && qc_simd_bits >= 256)
#define QC_HAS_AVX512()                                                                                                \
    (QC_HAS_AVX2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&                       \
     __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && qc_simd_bits >= 512)
#define QC_SIMD(name, parameters, arguments)                                                                           \
    QC_TARGET_AVX512 static void name##_avx512 parameters                                                              \
    {                                                                                                                  \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    QC_TARGET_AVX2 static void name##_avx2 parameters                                                                  \
    {                                                                                                                  \
        name##_body arguments;                                                                                         \
    }                                                                                                                  \
    static void name parameters                                                                                        \
    {                                                                                                                  \
        if (QC_HAS_AVX512())                                                                                           \
            name##_avx512 arguments;                                                                                   \
        else if (QC_HAS_AVX2())                                                                                        \
            name##_avx2 arguments;                                                                                     \
        else                                                                                                           \
            name##_body arguments;                                                                                     \
    }
#define QC_STRIP(...) __VA_ARGS__
#define QC_SIMD_ROUND(name, parameters, arguments)                                                                     \
    QC_TARGET_AVX512 static void name##_avx512 parameters                                                              \
    {                                                                                                                  \
        name##_body(true, QC_STRIP arguments);                                                                         \
    }                                                                                                                  \
    QC_TARGET_AVX2 static void name##_avx2 parameters                                                                  \
    {                                                                                                                  \
        name##_body(true, QC_STRIP arguments);                                                                         \
    }                                                                                                                  \
    static void name parameters                                                                                        \
    {                                                                                                                  \
        if (QC_HAS_AVX512())                                                                                           \
            name##_avx512 arguments;                                                                                   \
        else if (QC_HAS_AVX2())                                                                                        \
            name##_avx2 arguments;                                                                                     \
        else                                                                                                           \
            name##_body(false, QC_STRIP arguments);                                                                    \
    }
#else
#define QC_STRIP(...) __VA_ARGS__
#define QC_SIMD(name, parameters, arguments)                                                                           \
    static void name parameters                                                                                        \
    {                                                                                                                  \
        name##_body arguments;                                                                                         \
    }
#define QC_SIMD_ROUND(name, parameters, arguments)                                                                     \
    static void name parameters                                                                                        \
    {                                                                                                                  \
        name##_body(true, QC_STRIP arguments);                                                                         \
    }
#endif
