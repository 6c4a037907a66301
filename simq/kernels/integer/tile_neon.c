// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/tile_neon.h"

#if defined(__aarch64__) && defined(__GNUC__)
/* Multiplies two channels in each half, then adds neighbours. */
static QC_INLINE int32x4_t add_wide(int32x4_t acc, int32x4_t a, int32x4_t b)
{
    const int16x8_t x = vreinterpretq_s16_s32(a), y = vreinterpretq_s16_s32(b);
    return vaddq_s32(acc, vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y)));
}

static QC_INLINE int32x4_t add_pairs(int32x4_t acc, int32x4_t a, int32x4_t b)
{
    const int8x16_t x = vreinterpretq_s8_s32(a), y = vreinterpretq_s8_s32(b);
    return vpadalq_s16(acc, vpaddq_s16(vmull_s8(vget_low_s8(x), vget_low_s8(y)), vmull_high_s8(x, y)));
}

QC_NEON_BODY(qc_tile_wide_neon, vdupq_n_s32, add_wide)
QC_NEON_BODY(qc_tile_pairs_neon, QC_LESS_128, add_pairs)
#endif
