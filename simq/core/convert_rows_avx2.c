// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/simd.h"
#include "simq/core/convert.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { LANES = 8, FULL = 4 * LANES };

struct bytes {
    __m256i zero, lo, hi;
    __m256 a[4];     /* factors */
    __m256i mask[4]; /* valid lanes */
};

/* As in simq/core/convert_rows.c, for 32 bytes. */
QC_TARGET_AVX2 static QC_INLINE __m256i packed_convert_rows_avx2(const int32_t *x, const struct bytes *b,
                                                                 const struct qc_convert_form f)
{
    __m256i q[4];
    for (int k = 0; k < 4; k++) {
        const ptrdiff_t at = (ptrdiff_t)LANES * k;
        __m256 v = _mm256_setzero_ps();
        if (k < f.vectors) {
            const __m256i sum =
                f.whole ? _mm256_loadu_si256((const void *)(x + at)) : _mm256_maskload_epi32(x + at, b->mask[k]);
            v = _mm256_mul_ps(_mm256_cvtepi32_ps(sum), b->a[k]);
        }
        if (f.large) v = _mm256_min_ps(_mm256_set1_ps(INT16_MAX), v);
        q[k] = _mm256_cvtps_epi32(v);
    }
    __m256i low = _mm256_packs_epi32(q[0], q[1]), high = _mm256_packs_epi32(q[2], q[3]);
    if (!f.plain) {
        low = _mm256_adds_epi16(low, b->zero);
        high = _mm256_adds_epi16(high, b->zero);
    }
    /* Packing works within 16-byte lanes: lane l holds four bytes of each vector. */
    const __m256i order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    if (f.is_signed) {
        const __m256i v = _mm256_permutevar8x32_epi32(_mm256_packs_epi16(low, high), order);
        return f.plain ? v : _mm256_min_epi8(_mm256_max_epi8(v, b->lo), b->hi);
    }
    const __m256i v = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(low, high), order);
    return f.plain ? v : _mm256_min_epu8(_mm256_max_epu8(v, b->lo), b->hi);
}

/* Converts n channels of each row, at most 32. */
QC_TARGET_AVX2 static QC_INLINE void columns_convert_rows_avx2(uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                                                               size_t x_step, size_t rows, size_t n,
                                                               const struct bytes *bytes,
                                                               const struct qc_convert_form f)
{
    const struct bytes b = *bytes;
    for (size_t r = 0; r < rows; r++, x += x_step, y += y_step) {
        const __m256i v = packed_convert_rows_avx2(x, &b, f);
        if (f.whole && f.vectors == 4) {
            _mm256_storeu_si256((void *)y, v);
        } else if (f.whole) {
            _mm_storeu_si128((void *)y, _mm256_castsi256_si128(v));
        } else {
            uint8_t some[FULL];
            _mm256_storeu_si256((void *)some, v);
            memcpy(y, some, n);
        }
    }
}

QC_TARGET_AVX2 static QC_INLINE void rows_of_convert_rows_avx2(const struct qc_convert_rows *c, size_t first,
                                                               uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                                                               size_t x_step, size_t rows, size_t n,
                                                               const struct qc_convert_form f)
{
    const bool channels = c->rounding.count > 1;
    const float *factor = c->rounding.a + (channels ? first : 0);
    struct bytes b;
    b.zero = _mm256_set1_epi16((short)c->zero);
    b.lo = _mm256_set1_epi8((char)c->lo);
    b.hi = _mm256_set1_epi8((char)c->hi);
    for (size_t i = 0; i < n; i += FULL) {
        const size_t left = n - i < FULL ? n - i : FULL;
        for (int k = 0; k < 4; k++) {
            b.mask[k] =
                _mm256_cmpgt_epi32(_mm256_set1_epi32((int)left - LANES * k), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
            b.a[k] =
                channels ? _mm256_maskload_ps(factor + i + (ptrdiff_t)LANES * k, b.mask[k]) : _mm256_set1_ps(*factor);
        }
#define QC_CASE(v, w)                                                                                                  \
    columns_convert_rows_avx2(y + i, y_step, x + i, x_step, rows, left, &b,                                            \
                              (struct qc_convert_form){.vectors = (v),                                                 \
                                                       .whole = (w),                                                   \
                                                       .is_signed = f.is_signed,                                       \
                                                       .large = f.large,                                               \
                                                       .plain = f.plain})
        if (left == FULL)
            QC_CASE(4, true);
        else if (left == FULL / 2)
            QC_CASE(2, true);
        else
            QC_CASE(4, false);
#undef QC_CASE
    }
}

QC_CONVERT_FORMS(, qc_convert_rows_avx2, QC_TARGET_AVX2, rows_of_convert_rows_avx2)
#endif
