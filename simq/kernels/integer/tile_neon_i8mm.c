// SPDX-License-Identifier: Apache-2.0
/* Compiled for Armv8.2 with matrix products of bytes (simq/CMakeLists.txt); used only if the processor has them. */
#include "simq/kernels/integer/tile_neon.h"

#if defined(__aarch64__) && defined(__ARM_FEATURE_MATMUL_INT8)
#define QC_DOT_MIXED(acc, a, b) vusdotq_s32(acc, vreinterpretq_u8_s32(a), vreinterpretq_s8_s32(b))
QC_TILE_BODY(mixed, , int32x4_t, 4, 4, vld1q_s32, vst1q_s32, vdupq_n_s32, QC_DOT_MIXED)

/* Loads 8 bytes of two rows if `whole`, else 4 bytes of each followed by zeros. */
static QC_INLINE uint8x16_t two_rows(const uint8_t *a, ptrdiff_t step, const bool whole)
{
    if (whole) return vcombine_u8(vld1_u8(a), vld1_u8(a + step));
    return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64((uint32_t)quad(a)), vcreate_u64((uint32_t)quad(a + step))));
}

enum { VECTORS = 4, CHANNEL_PAIRS = 8 };

/* Accumulates two rows and two channels per vector, from 8 bytes of each: two groups of the weights, or a last one
   and zeros. */
static QC_INLINE void multiply_tile_neon_i8mm(int32x4_t acc[2][CHANNEL_PAIRS], const uint8_t *a, ptrdiff_t step,
                                              const uint8_t *w, ptrdiff_t width, const int pairs, const bool whole)
{
    uint8x16_t x[2];
    QC_UNROLL for (int m = 0; m < pairs; m++) x[m] = two_rows(a + 2 * m * step, step, whole);
    QC_UNROLL for (int k = 0; k < VECTORS; k++)
    {
        const int32x4_t near = vld1q_s32((const void *)(w + 16 * k)),
                        far = whole ? vld1q_s32((const void *)(w + 4 * width + 16 * k)) : vdupq_n_s32(0);
        const int8x16_t lo = vreinterpretq_s8_s32(vzip1q_s32(near, far)),
                        hi = vreinterpretq_s8_s32(vzip2q_s32(near, far));
        QC_UNROLL for (int m = 0; m < pairs; m++)
        {
            acc[m][2 * k] = vusmmlaq_s32(acc[m][2 * k], x[m], lo);
            acc[m][2 * k + 1] = vusmmlaq_s32(acc[m][2 * k + 1], x[m], hi);
        }
    }
}

/* Computes one block of a tile of `all` blocks, two rows at a time. */
static QC_INLINE void matrix_tile(const struct qc_tile *t, const int pairs, const int all)
{
    int32x4_t acc[2][CHANNEL_PAIRS];
    const ptrdiff_t step = t->step, width = (ptrdiff_t)all * QC_TILE_CHANNELS;
    const uint8_t *w = t->w;
    QC_UNROLL for (int k = 0; k < CHANNEL_PAIRS; k++)
    {
        const int32x2_t bias = vld1_s32(t->bias + 2 * k);
        QC_UNROLL for (int m = 0; m < pairs; m++) acc[m][k] = vcombine_s32(bias, bias);
    }
    for (size_t r = 0; r < t->runs; r++) {
        const uint8_t *a = t->a + t->run[r];
        size_t q = t->quads;
        for (; q >= 2; q -= 2, a += 8, w += 8 * width) multiply_tile_neon_i8mm(acc, a, step, w, width, pairs, true);
        if (q) {
            multiply_tile_neon_i8mm(acc, a, step, w, width, pairs, false);
            w += 4 * width;
        }
    }
    QC_UNROLL for (int m = 0; m < pairs; m++) QC_UNROLL for (int k = 0; k < CHANNEL_PAIRS; k++)
    {
        vst1_s32(t->acc + 2 * m * width + 2 * k, vget_low_s32(acc[m][k]));
        vst1_s32(t->acc + (2 * m + 1) * width + 2 * k, vget_high_s32(acc[m][k]));
    }
}

void qc_tile_narrow_i8mm(const struct qc_tile *t, int rows, int blocks)
{
    for (int m = 0; m < rows; m += 4)
        for (int n = 0; n < blocks; n++) {
            const struct qc_tile part = qc_tile_part(t, m, n * QC_TILE_CHANNELS, blocks);
            if (rows >= 4)
                matrix_tile(&part, 2, blocks);
            else if (rows == 2)
                matrix_tile(&part, 1, blocks);
            else
                mixed_body(&part, 1, VECTORS, blocks);
        }
}
#endif
