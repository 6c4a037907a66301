// SPDX-License-Identifier: Apache-2.0
/* Vector code without -march: a loop is written once as an always-inlined body in plain C, and compiled for the baseline and,
   on x86-64, for AVX2 with FMA and for AVX-512; the processor decides at run time. The build forbids contraction
   (-ffp-contract=off), so that all of them give the same bits, as long as the body does not depend on the order of a sum.

     static QC_INLINE void scale_body(float *y, const float *x, size_t n, float s) { for (...) y[i] = x[i] * s; }
     QC_SIMD(scale, (float *y, const float *x, size_t n, float s), (y, x, n, s))

   defines `static void scale(float *y, ...)`. */
#ifndef QC_SIMQ_SIMD_H
#define QC_SIMQ_SIMD_H

#define QC_INLINE inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GNUC__)
#define QC_TARGET_AVX2 __attribute__((target("avx2,fma")))
#define QC_TARGET_AVX512 __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")))
#define QC_HAS_AVX2() (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
#define QC_HAS_AVX512()                                                                                                \
    (QC_HAS_AVX2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") && \
     __builtin_cpu_supports("avx512vl"))
#define QC_SIMD(name, parameters, arguments)                            \
    QC_TARGET_AVX512 static void name##_avx512 parameters { name##_body arguments; } \
    QC_TARGET_AVX2 static void name##_avx2 parameters { name##_body arguments; } \
    static void name parameters                                         \
    {                                                                   \
        if (QC_HAS_AVX512()) name##_avx512 arguments;                   \
        else if (QC_HAS_AVX2()) name##_avx2 arguments;                  \
        else name##_body arguments;                                     \
    }
#else
#define QC_SIMD(name, parameters, arguments) \
    static void name parameters { name##_body arguments; }
#endif

#endif
