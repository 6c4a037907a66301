// SPDX-License-Identifier: Apache-2.0
/* Compiled for Armv8.2 with dot products (simq/CMakeLists.txt); used only if the processor has them. */
#include "simq/kernels/integer/tile_neon.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_DOTPROD)
#define QC_DOT(acc, a, b) vdotq_s32(acc, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b))
QC_NEON_BODY(qc_tile_narrow_dot, QC_LESS_128, QC_DOT)
#endif
