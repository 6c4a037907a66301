// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: before a loop of a few rounds over registers. */
#pragma once

#if defined(__clang__)
#define QC_UNROLL _Pragma("clang loop unroll(full)")
#elif defined(__GNUC__)
#define QC_UNROLL _Pragma("GCC unroll 32")
#else
#define QC_UNROLL
#endif

/* Loops unrolled in many sizes: clang would take half a minute over the checks of -fsanitize=undefined in them. gcc
   makes the same checks in its builds. */
#if defined(__clang__)
#define QC_NOT_CHECKED __attribute__((no_sanitize("undefined")))
#else
#define QC_NOT_CHECKED
#endif

#if defined(__x86_64__) && defined(__GNUC__)
#define QC_TARGET_VNNI __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
#endif
