// SPDX-License-Identifier: Apache-2.0
/* Data less 128 have a sign, as the weights do: 0x80 turned over in each byte. */
#include "simq/kernels/integer/tile_body.h"
#include "simq/kernels/integer/tile_sets.h"

#if defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>

#define QC_TARGET_NEON
#define QC_TARGET_DOT __attribute__((target("arch=armv8.2-a+dotprod")))
#define QC_TARGET_I8MM __attribute__((target("arch=armv8.2-a+dotprod+i8mm")))

#define QC_BODY(name, target, set1, dot)                                                                               \
    QC_TILE_BODY(name, target, int32x4_t, 4, 4, vld1q_s32, vst1q_s32, set1, dot)                                       \
    QC_TILE_SMALL(name, target)
#define QC_LESS_128(x) vdupq_n_s32((x) ^ (int32_t)0x80808080)

/* Products of two channels in each half, then sums of neighbours. */
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

#define QC_DOT(acc, a, b) vdotq_s32(acc, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b))

QC_BODY(qc_tile_wide_neon, QC_TARGET_NEON, vdupq_n_s32, add_wide)
QC_BODY(qc_tile_pairs_neon, QC_TARGET_NEON, QC_LESS_128, add_pairs)
QC_BODY(qc_tile_narrow_dot, QC_TARGET_DOT, QC_LESS_128, QC_DOT)

#define QC_DOT_MIXED(acc, a, b) vusdotq_s32(acc, vreinterpretq_u8_s32(a), vreinterpretq_s8_s32(b))
QC_TILE_BODY(mixed, QC_TARGET_I8MM, int32x4_t, 4, 4, vld1q_s32, vst1q_s32, vdupq_n_s32, QC_DOT_MIXED)

/* Bytes of two rows, `count` of each and zeros behind them. */
QC_TARGET_I8MM static QC_INLINE uint8x16_t two_rows(const uint8_t *a, ptrdiff_t step, const bool whole)
{
    if (whole) return vcombine_u8(vld1_u8(a), vld1_u8(a + step));
    return vreinterpretq_u8_u64(vcombine_u64(vcreate_u64((uint32_t)quad(a)), vcreate_u64((uint32_t)quad(a + step))));
}

enum { VECTORS = 4, CHANNEL_PAIRS = 8 };

/* The sums of two rows and two channels in each vector, from 8 bytes of each row and each channel: two groups of the
   weights, or a last one and zeros. */
QC_TARGET_I8MM static QC_INLINE void multiply(int32x4_t acc[2][CHANNEL_PAIRS], const uint8_t *a, ptrdiff_t step,
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

/* One block of a tile that has `all`, two rows at a time. */
QC_TARGET_I8MM static QC_INLINE void matrix(const struct qc_tile *t, const int pairs, const int all)
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
        for (; q >= 2; q -= 2, a += 8, w += 8 * width) multiply(acc, a, step, w, width, pairs, true);
        if (q) {
            multiply(acc, a, step, w, width, pairs, false);
            w += 4 * width;
        }
    }
    QC_UNROLL for (int m = 0; m < pairs; m++) QC_UNROLL for (int k = 0; k < CHANNEL_PAIRS; k++)
    {
        vst1_s32(t->acc + 2 * m * width + 2 * k, vget_low_s32(acc[m][k]));
        vst1_s32(t->acc + (2 * m + 1) * width + 2 * k, vget_high_s32(acc[m][k]));
    }
}

QC_TARGET_I8MM void qc_tile_narrow_i8mm(const struct qc_tile *t, int rows, int blocks)
{
    for (int m = 0; m < rows; m += 4)
        for (int n = 0; n < blocks; n++) {
            const struct qc_tile part = qc_tile_part(t, m, n, blocks);
            if (rows >= 4)
                matrix(&part, 2, blocks);
            else if (rows == 2)
                matrix(&part, 1, blocks);
            else
                mixed_body(&part, 1, 1, blocks);
        }
}
#endif
