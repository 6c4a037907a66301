// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/depthwise.h"

#include "base/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { BLOCK = QC_DEPTHWISE_BLOCK, GROUP = QC_DEPTHWISE_LINES + 1 };

/* Interleaves four lines of 64 channels: vectors of 16 channels with four bytes each. */
QC_TARGET_VNNI static QC_INLINE void interleaved(__m512i to[4], const __m512i x[GROUP])
{
    const __m512i lo01 = _mm512_unpacklo_epi8(x[0], x[1]), hi01 = _mm512_unpackhi_epi8(x[0], x[1]),
                  lo23 = _mm512_unpacklo_epi8(x[2], x[3]), hi23 = _mm512_unpackhi_epi8(x[2], x[3]);
    to[0] = _mm512_unpacklo_epi16(lo01, lo23);
    to[1] = _mm512_unpackhi_epi16(lo01, lo23);
    to[2] = _mm512_unpacklo_epi16(hi01, hi23);
    to[3] = _mm512_unpackhi_epi16(hi01, hi23);
}

/* Restores the order of lanes of four channels (a 4 by 4 transposition of lanes) and adds the bias. */
QC_TARGET_VNNI static QC_INLINE void store_in_order(int32_t *to, const __m512i acc[4], const int32_t *bias)
{
    const __m512i a = _mm512_shuffle_i32x4(acc[0], acc[1], 0x44), e = _mm512_shuffle_i32x4(acc[0], acc[1], 0xee),
                  c = _mm512_shuffle_i32x4(acc[2], acc[3], 0x44), f = _mm512_shuffle_i32x4(acc[2], acc[3], 0xee);
    const __m512i lane[4] = {_mm512_shuffle_i32x4(a, c, 0x88), _mm512_shuffle_i32x4(a, c, 0xdd),
                             _mm512_shuffle_i32x4(e, f, 0x88), _mm512_shuffle_i32x4(e, f, 0xdd)};
    QC_UNROLL for (int k = 0; k < 4; k++)
        _mm512_storeu_si512(to + 16 * k, _mm512_add_epi32(lane[k], _mm512_loadu_si512(bias + 16 * k)));
}

QC_TARGET_VNNI void qc_depthwise_vnni(const struct qc_depthwise *d)
{
    const size_t groups = (d->taps + GROUP - 1) / GROUP;
    const int8_t *w = d->w;
    for (size_t b = 0; b < d->channels; b += BLOCK) {
        __m512i acc[4], x[GROUP], y[4];
        QC_UNROLL for (int k = 0; k < 4; k++) acc[k] = _mm512_setzero_si512();
        for (size_t g = 0; g < groups; g++, w += GROUP * BLOCK) {
            QC_UNROLL for (size_t i = 0; i < GROUP; i++)
            {
                const size_t t = g * GROUP + i < d->taps ? g * GROUP + i : 0; /* a missing tap has weight 0 */
                x[i] = _mm512_loadu_si512(d->a + d->tap[t] + b);
            }
            interleaved(y, x);
            QC_UNROLL for (int k = 0; k < 4; k++) acc[k] =
                _mm512_dpbusd_epi32(acc[k], y[k], _mm512_loadu_si512(w + BLOCK * k));
        }
        store_in_order(d->acc + b, acc, d->bias + b);
    }
}

QC_TARGET_VNNI void qc_depthwise_pair_vnni(const struct qc_depthwise_pair *d)
{
    const struct qc_depthwise *u = &d->upper;
    const int8_t *w = u->w, *v = d->below;
    for (size_t b = 0; b < u->channels; b += BLOCK) {
        __m512i acc[4], low[4], x[GROUP], y[4];
        QC_UNROLL for (int k = 0; k < 4; k++) acc[k] = low[k] = _mm512_setzero_si512();
        for (size_t t = 0; t < u->taps; t++, w += GROUP * BLOCK, v += GROUP * BLOCK) {
            const uint8_t *a = u->a + u->tap[t] + b;
            QC_UNROLL for (int i = 0; i < GROUP; i++) x[i] = _mm512_loadu_si512(a + i * d->line);
            interleaved(y, x);
            QC_UNROLL for (int k = 0; k < 4; k++)
            {
                acc[k] = _mm512_dpbusd_epi32(acc[k], y[k], _mm512_loadu_si512(w + BLOCK * k));
                low[k] = _mm512_dpbusd_epi32(low[k], y[k], _mm512_loadu_si512(v + BLOCK * k));
            }
        }
        store_in_order(u->acc + b, acc, u->bias + b);
        store_in_order(d->acc_below + b, low, u->bias + b);
    }
}

/* ------------------------------------------------- along a line */

struct finish {
    __m512i zero, lo, hi;
    __m512 factor[4];
    bool is_signed, large;
    __mmask64 mask; /* of channels */
};

struct column {
    __m512i x[4];
};

/* Converts the sums of four vectors to bytes. Packing within lanes restores the channel order; otherwise as in
   simq/core/convert_rows.c. */
QC_TARGET_VNNI static QC_INLINE __m512i finished_depthwise_vnni(const __m512i acc[4], const struct finish *f)
{
    __m512i q[4];
    QC_UNROLL for (int k = 0; k < 4; k++)
    {
        __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(acc[k]), f->factor[k]);
        if (f->large) v = _mm512_min_ps(_mm512_set1_ps(INT16_MAX), v);
        q[k] = _mm512_cvtps_epi32(v);
    }
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), f->zero),
                  high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), f->zero);
    if (f->is_signed) return _mm512_min_epi8(_mm512_max_epi8(_mm512_packs_epi16(low, high), f->lo), f->hi);
    return _mm512_min_epu8(_mm512_max_epu8(_mm512_packus_epi16(low, high), f->lo), f->hi);
}

QC_TARGET_VNNI static QC_INLINE void column(struct column *to, const struct qc_depthwise_line *d, size_t first,
                                            size_t i)
{
    const ptrdiff_t at = (ptrdiff_t)i * d->column;
    __m512i x[GROUP];
    QC_UNROLL for (int k = 0; k < GROUP; k++) x[k] = _mm512_loadu_si512(d->line[k] + at);
    interleaved(to->x, x);
}

QC_TARGET_VNNI static QC_INLINE __m512i window_depthwise_vnni(const struct column *a, const struct column *b,
                                                              const struct column *c, const int8_t *w,
                                                              const int32_t *bias, const struct finish *f)
{
    __m512i acc[4];
    QC_UNROLL for (int k = 0; k < 4; k++)
    {
        acc[k] = _mm512_dpbusd_epi32(_mm512_loadu_si512(bias + 16 * k), a->x[k], _mm512_loadu_si512(w + BLOCK * k));
        acc[k] = _mm512_dpbusd_epi32(acc[k], b->x[k], _mm512_loadu_si512(w + BLOCK * (4 + k)));
        acc[k] = _mm512_dpbusd_epi32(acc[k], c->x[k], _mm512_loadu_si512(w + BLOCK * (8 + k)));
    }
    return finished_depthwise_vnni(acc, f);
}

QC_TARGET_VNNI static QC_INLINE void result_depthwise_vnni(const struct qc_depthwise_line *d, size_t first, size_t i,
                                                           const struct column *a, const struct column *b,
                                                           const struct column *c, const struct finish *f,
                                                           const bool two)
{
    const ptrdiff_t at = (ptrdiff_t)i * d->y_step;
    _mm512_mask_storeu_epi8(d->y + at, f->mask, window_depthwise_vnni(a, b, c, d->w, d->bias, f));
    if (two) _mm512_mask_storeu_epi8(d->y_below + at, f->mask, window_depthwise_vnni(a, b, c, d->below, d->bias, f));
}

QC_DEPTHWISE_WALK(QC_TARGET_VNNI, walk_vnni, column, result_depthwise_vnni)

QC_TARGET_VNNI void qc_depthwise_line_vnni(const struct qc_depthwise_line *d)
{
    struct finish f = {.zero = _mm512_set1_epi16((short)d->finish->zero),
                       .lo = _mm512_set1_epi8((char)d->finish->lo),
                       .hi = _mm512_set1_epi8((char)d->finish->hi),
                       .is_signed = d->finish->is_signed,
                       .large = d->finish->large,
                       .mask = d->channels < BLOCK ? (UINT64_C(1) << d->channels) - 1 : UINT64_MAX};
    QC_UNROLL for (int k = 0; k < 4; k++) f.factor[k] = _mm512_loadu_ps(d->factor + 16 * k);
    walk_vnni(d, 0, &f);
}
#endif
