// SPDX-License-Identifier: Apache-2.0
/* Two taps at a time in 16 bits, whose products are exact: the bytes of 16 channels of each tap become interleaved
   words. */
#include "simq/kernels/integer/depthwise.h"

#include <string.h>

#include "base/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { BLOCK = 16, LINES = QC_DEPTHWISE_LINES + 1, COLUMNS = 3, PAIR = 2 * BLOCK /* weights of two taps */ };

QC_TARGET_AVX2 static QC_INLINE __m256i words(const uint8_t *a)
{
    return _mm256_cvtepu8_epi16(_mm_loadu_si128((const void *)a));
}

QC_TARGET_AVX2 static QC_INLINE __m256i at(const void *p)
{
    return _mm256_loadu_si256(p);
}

/* Accumulates: channels 0 to 3 and 8 to 11 in the first vector, the others in the second. */
QC_TARGET_AVX2 static QC_INLINE void add_pair_sums(__m256i acc[2], const __m256i x[2], const int16_t *w)
{
    acc[0] = _mm256_add_epi32(acc[0], _mm256_madd_epi16(x[0], at(w)));
    acc[1] = _mm256_add_epi32(acc[1], _mm256_madd_epi16(x[1], at(w + BLOCK)));
}

QC_TARGET_AVX2 static QC_INLINE void load_pair(__m256i to[2], const uint8_t *a, const uint8_t *b)
{
    const __m256i x = words(a), y = words(b);
    to[0] = _mm256_unpacklo_epi16(x, y);
    to[1] = _mm256_unpackhi_epi16(x, y);
}

QC_TARGET_AVX2 void qc_depthwise_avx2(const struct qc_depthwise *d)
{
    const int16_t *w = d->w;
    for (size_t b = 0; b < d->channels; b += BLOCK) {
        __m256i acc[2] = {_mm256_setzero_si256(), _mm256_setzero_si256()}, x[2];
        for (size_t t = 0; t < d->taps; t += 2, w += PAIR) {
            load_pair(x, d->a + d->tap[t] + b, d->a + d->tap[t + 1 < d->taps ? t + 1 : t] + b);
            add_pair_sums(acc, x, w);
        }
        const __m256i lo = _mm256_permute2x128_si256(acc[0], acc[1], 0x20),
                      hi = _mm256_permute2x128_si256(acc[0], acc[1], 0x31);
        _mm256_storeu_si256((void *)(d->acc + b), _mm256_add_epi32(lo, at(d->bias + b)));
        _mm256_storeu_si256((void *)(d->acc + b + 8), _mm256_add_epi32(hi, at(d->bias + b + 8)));
    }
}

/* ------------------------------------------------- along a line */

struct finish {
    __m256i zero, lo, hi;
    bool is_signed, large;
};

QC_TARGET_AVX2 static QC_INLINE __m256i rounded(__m256i acc, const float *factor, const struct finish *f)
{
    __m256 v = _mm256_mul_ps(_mm256_cvtepi32_ps(acc), _mm256_loadu_ps(factor));
    if (f->large) v = _mm256_min_ps(_mm256_set1_ps(INT16_MAX), v);
    return _mm256_cvtps_epi32(v);
}

/* Packing within lanes restores the channel order; otherwise as in simq/core/convert_rows.c. */
QC_TARGET_AVX2 static QC_INLINE __m128i finished_depthwise_avx2(const __m256i acc[2], const float *factor,
                                                                const struct finish *f)
{
    const __m256i q =
        _mm256_adds_epi16(_mm256_packs_epi32(rounded(acc[0], factor, f), rounded(acc[1], factor + BLOCK / 2, f)),
                          f->zero);
    const __m256i v = f->is_signed ? _mm256_min_epi8(_mm256_max_epi8(_mm256_packs_epi16(q, q), f->lo), f->hi)
                                   : _mm256_min_epu8(_mm256_max_epu8(_mm256_packus_epi16(q, q), f->lo), f->hi);
    return _mm256_castsi256_si128(_mm256_permute4x64_epi64(v, 0x08));
}

struct column {
    __m256i upper[2], lower[2]; /* lines 0 and 1, 2 and 3 */
};

QC_TARGET_AVX2 static QC_INLINE void load_column(struct column *to, const struct qc_depthwise_line *d, size_t first,
                                                 size_t i)
{
    const ptrdiff_t from = (ptrdiff_t)i * d->column + (ptrdiff_t)first;
    load_pair(to->upper, d->line[0] + from, d->line[1] + from);
    load_pair(to->lower, d->line[2] + from, d->line[3] + from);
}

QC_TARGET_AVX2 static QC_INLINE void store_some(uint8_t *y, __m128i v, size_t n)
{
    uint8_t some[BLOCK];
    _mm_storeu_si128((void *)some, v);
    memcpy(y, some, n);
}

/* Computes the window at channel `first` with the columns a, b and c. */
QC_TARGET_AVX2 static QC_INLINE void window_depthwise_avx2(uint8_t *y, const struct qc_depthwise_line *d, size_t first,
                                                           const struct column *a, const struct column *b,
                                                           const struct column *c, const int16_t *w,
                                                           const struct finish *f)
{
    const struct column *const all[COLUMNS] = {a, b, c};
    __m256i acc[2] = {at(d->bias + first), at(d->bias + first + BLOCK / 2)};
    w += first * LINES * COLUMNS;
    QC_UNROLL for (int k = 0; k < COLUMNS; k++)
    {
        add_pair_sums(acc, all[k]->upper, w + 2 * k * PAIR);
        add_pair_sums(acc, all[k]->lower, w + (2 * k + 1) * PAIR);
    }
    const __m128i v = finished_depthwise_avx2(acc, d->factor + first, f);
    if (d->channels - first >= BLOCK)
        _mm_storeu_si128((void *)(y + first), v);
    else
        store_some(y + first, v, d->channels - first);
}

QC_TARGET_AVX2 static QC_INLINE void result_depthwise_avx2(const struct qc_depthwise_line *d, size_t first, size_t i,
                                                           const struct column *a, const struct column *b,
                                                           const struct column *c, const struct finish *f,
                                                           const bool two)
{
    const ptrdiff_t to = (ptrdiff_t)i * d->y_step;
    window_depthwise_avx2(d->y + to, d, first, a, b, c, d->w, f);
    if (two) window_depthwise_avx2(d->y_below + to, d, first, a, b, c, d->below, f);
}

QC_DEPTHWISE_WALK(QC_TARGET_AVX2, walk_avx2, load_column, result_depthwise_avx2)

QC_TARGET_AVX2 void qc_depthwise_line_avx2(const struct qc_depthwise_line *d)
{
    const struct finish f = {.zero = _mm256_set1_epi16((short)d->finish->zero),
                             .lo = _mm256_set1_epi8((char)d->finish->lo),
                             .hi = _mm256_set1_epi8((char)d->finish->hi),
                             .is_signed = d->finish->is_signed,
                             .large = d->finish->large};
    for (size_t first = 0; first < d->channels; first += BLOCK) walk_avx2(d, first, &f);
}
#endif
