// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: put before a short loop over registers. */
#pragma once

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
