// SPDX-License-Identifier: Apache-2.0
/* Vector code without -march. A loop is written once as an always-inlined body in plain C. It is compiled for the
   baseline and, on x86-64, for AVX2 with FMA and for AVX-512; the processor is checked at run time. The build forbids
   contraction (-ffp-contract=off), so all versions give the same bits unless the body depends on the order of a sum.

     static QC_INLINE void scale_body(float *y, const float *x, size_t n, float s) { for (...) y[i] = x[i] * s; }
     QC_SIMD(scale, (float *y, const float *x, size_t n, float s), (y, x, n, s))

   defines `static void scale(float *y, ...)`; QC_SIMD_EXPORTED one that is not static. QC_SIMD_ROUND does the same for
   bodies that round: they take a first parameter `const bool native` and pass it to qc_round_even. */
#pragma once

#include <stdbool.h>

#define QC_INLINE inline __attribute__((always_inline))

/* Returns the environment variable QCALIB_MAX_CPU_ISA, which limits the instructions of all code (names:
   simq/core/kernel.h), or NULL if it is not set. */
const char *qc_simd_limit(void);
/* The widest vectors that it allows: 128, 256 or 512 bits. Read when the program is loaded. */
extern int qc_simd_bits;

/* Put before a loop whose iterations are independent, even if its arrays are the same memory (in place). */
#if defined(__clang__)
#define QC_IVDEP _Pragma("clang loop vectorize(assume_safety)")
#pragma clang diagnostic ignored "-Wpass-failed" /* not vectorizing is the cost model's choice, not an error */
#elif defined(__GNUC__)
#define QC_IVDEP _Pragma("GCC ivdep")
#else
#define QC_IVDEP
#endif

/* Rounds half to even. native: the function is compiled for SSE4.1 or better, which has an instruction for it.
   Otherwise |x| + 2^23 - 2^23 is the exact rounding of |x| < 2^23, because the sum's unit in the last place is 1;
   larger numbers are integers. Both give the same bits, including the sign of zero. */
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
/* wide, plain: arguments of the body compiled for wide vectors and for the baseline. */
#define QC_SIMD_OF(scope, name, parameters, arguments, wide, plain)                                                    \
    QC_TARGET_AVX512 static void name##_avx512 parameters                                                              \
    {                                                                                                                  \
        name##_body wide;                                                                                              \
    }                                                                                                                  \
    QC_TARGET_AVX2 static void name##_avx2 parameters                                                                  \
    {                                                                                                                  \
        name##_body wide;                                                                                              \
    }                                                                                                                  \
    scope void name parameters                                                                                         \
    {                                                                                                                  \
        if (QC_HAS_AVX512())                                                                                           \
            name##_avx512 arguments;                                                                                   \
        else if (QC_HAS_AVX2())                                                                                        \
            name##_avx2 arguments;                                                                                     \
        else                                                                                                           \
            name##_body plain;                                                                                         \
    }
#else
#define QC_SIMD_OF(scope, name, parameters, arguments, wide, plain)                                                    \
    scope void name parameters                                                                                         \
    {                                                                                                                  \
        name##_body wide;                                                                                              \
    }
#endif
#define QC_STRIP(...) __VA_ARGS__
/* The same before the body, which follows in braces and has the parameters and, in the _ROUND forms, `native`:

     QC_VECTOR(scale, (float *y, const float *x, size_t n, float s), (y, x, n, s)) { for (...) y[i] = x[i] * s; } */
#define QC_VECTOR(name, parameters, arguments)                                                                         \
    static QC_INLINE void name##_body parameters;                                                                      \
    QC_SIMD(name, parameters, arguments)                                                                               \
    static QC_INLINE void name##_body parameters
#define QC_VECTOR_EXPORTED(name, parameters, arguments)                                                                \
    static QC_INLINE void name##_body parameters;                                                                      \
    QC_SIMD_EXPORTED(name, parameters, arguments)                                                                      \
    static QC_INLINE void name##_body parameters
#define QC_VECTOR_ROUND(name, parameters, arguments)                                                                   \
    static QC_INLINE void name##_body(const bool native, QC_STRIP parameters);                                         \
    QC_SIMD_ROUND(name, parameters, arguments)                                                                         \
    static QC_INLINE void name##_body(const bool native, QC_STRIP parameters)
#define QC_VECTOR_ROUND_EXPORTED(name, parameters, arguments)                                                          \
    static QC_INLINE void name##_body(const bool native, QC_STRIP parameters);                                         \
    QC_SIMD_ROUND_EXPORTED(name, parameters, arguments)                                                                \
    static QC_INLINE void name##_body(const bool native, QC_STRIP parameters)
#define QC_SIMD(name, parameters, arguments) QC_SIMD_OF(static, name, parameters, arguments, arguments, arguments)
#define QC_SIMD_ROUND(name, parameters, arguments)                                                                     \
    QC_SIMD_OF(static, name, parameters, arguments, (true, QC_STRIP arguments), (false, QC_STRIP arguments))
#define QC_SIMD_EXPORTED(name, parameters, arguments) QC_SIMD_OF(, name, parameters, arguments, arguments, arguments)
#define QC_SIMD_ROUND_EXPORTED(name, parameters, arguments)                                                            \
    QC_SIMD_OF(, name, parameters, arguments, (true, QC_STRIP arguments), (false, QC_STRIP arguments))

/* Put before a short loop over registers. */
#if defined(__clang__)
#define QC_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define QC_UNROLL _Pragma("GCC unroll 32")
#else
#define QC_UNROLL
#endif

/* For loops unrolled in many sizes: their checks under -fsanitize=undefined take clang half a minute to compile. gcc
   builds keep the checks. */
#if defined(__clang__)
#define QC_NOT_CHECKED __attribute__((no_sanitize("undefined")))
#else
#define QC_NOT_CHECKED
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define QC_TARGET_VNNI __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#endif
