// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: the loops of simq/kernels/integer/tile_body.h with NEON, for any product
   instruction. */
#pragma once

#include "simq/kernels/integer/tile_body.h"

#if defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>

#define QC_NEON_BODY(name, set1, dot)                                                                                  \
    QC_TILE_BODY(name, , int32x4_t, 4, 4, vld1q_s32, vst1q_s32, set1, dot)                                             \
    QC_TILE_SMALL(name, , 4, 4, 4)

/* Subtracts 128 from each byte by flipping bit 0x80, so that data is signed as the weights are. */
#define QC_LESS_128(x) vdupq_n_s32((x) ^ (int32_t)0x80808080)
#endif
