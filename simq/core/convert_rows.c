// SPDX-License-Identifier: Apache-2.0
#include "simq/core/convert_rows.h"

#include <math.h>

#include "base/simd.h"

void qc_convert_rows_of(struct qc_convert_rows *c)
{
    const struct qc_rounding *r = &c->rounding;
    c->uniform = true;
    for (size_t i = 0; c->uniform && i < r->count; i++) {
        const int32_t zero = c->zeros[i], lo = (int32_t)nearbyintf(r->lo[i]) + zero,
                      hi = (int32_t)nearbyintf(r->hi[i]) + zero;
        if (i == 0) {
            c->zero = zero;
            c->lo = lo;
            c->hi = hi;
        }
        c->uniform = zero == c->zero && lo == c->lo && hi == c->hi && r->a[i] >= 0 && r->a[i] < 1;
    }
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { LANES = 16, FULL = 4 * LANES };

/* One after the other: parameters that differ by channel. The instruction that converts to integers rounds to even, as
   RNE(clamp(x)) does. */
QC_TARGET_AVX512 static void rows_any(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step,
                                      const int32_t *x, size_t x_step, size_t rows, size_t n)
{
    const bool channels = c->rounding.count > 1;
    const size_t at = channels ? first : 0;
    const float *pa = c->rounding.a + at, *plo = c->rounding.lo + at, *phi = c->rounding.hi + at;
    const int32_t *pzero = c->zeros + at;
    for (size_t i = 0; i < n; i += LANES) {
        const __mmask16 mask = (__mmask16)(n - i < LANES ? (1U << (n - i)) - 1 : 0xffffU);
        const __m512 a = channels ? _mm512_maskz_loadu_ps(mask, pa + i) : _mm512_set1_ps(*pa),
                     lo = channels ? _mm512_maskz_loadu_ps(mask, plo + i) : _mm512_set1_ps(*plo),
                     hi = channels ? _mm512_maskz_loadu_ps(mask, phi + i) : _mm512_set1_ps(*phi);
        const __m512i zero = channels ? _mm512_maskz_loadu_epi32(mask, pzero + i) : _mm512_set1_epi32(*pzero);
        for (size_t r = 0; r < rows; r++) {
            __m512 v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_maskz_loadu_epi32(mask, x + r * x_step + i)), a);
            v = _mm512_min_ps(_mm512_max_ps(v, lo), hi);
            const __m512i q = _mm512_add_epi32(_mm512_cvtps_epi32(v), zero);
            _mm512_mask_cvtepi32_storeu_epi8(y + (ptrdiff_t)r * y_step + i, mask, q);
        }
    }
}

struct bytes {
    __m512i zero, lo, hi;
};

/* Four vectors of accumulators as 64 bytes. Factors are below 1, so that no product leaves an int32, and each step
   saturates: bounds may come after rounding. */
QC_TARGET_AVX512 static QC_INLINE __m512i packed(const int32_t *x, const __m512 a[4], const int vectors,
                                                 const struct bytes *b, const bool is_signed)
{
    __m512i q[4];
    for (int k = 0; k < 4; k++)
        q[k] = k < vectors ? _mm512_cvtps_epi32(
                                 _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(x + (ptrdiff_t)LANES * k)), a[k]))
                           : _mm512_setzero_si512();
    const __m512i low = _mm512_adds_epi16(_mm512_packs_epi32(q[0], q[1]), b->zero),
                  high = _mm512_adds_epi16(_mm512_packs_epi32(q[2], q[3]), b->zero);
    /* Packing works within lanes of 16 bytes: lane l has four bytes of each vector. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    if (is_signed) {
        const __m512i v = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
        return _mm512_min_epi8(_mm512_max_epi8(v, b->lo), b->hi);
    }
    const __m512i v = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
    return _mm512_min_epu8(_mm512_max_epu8(v, b->lo), b->hi);
}

/* The first n bytes of v, 64 at most. */
QC_TARGET_AVX512 static QC_INLINE void store(uint8_t *y, __m512i v, size_t n)
{
    if (n == FULL) {
        _mm512_storeu_si512(y, v);
    } else if (n == LANES) {
        _mm_storeu_si128((__m128i *)(void *)y, _mm512_castsi512_si128(v));
    } else if (n == 2 * LANES || n == 3 * LANES) {
        _mm256_storeu_si256((__m256i *)(void *)y, _mm512_castsi512_si256(v));
        if (n > 2 * LANES) _mm_storeu_si128((__m128i *)(void *)(y + 32), _mm512_extracti32x4_epi32(v, 2));
    } else {
        _mm512_mask_storeu_epi8(y, (UINT64_C(1) << n) - 1, v);
    }
}

/* n channels at most 64, which is `vectors` vectors, of each row. */
QC_TARGET_AVX512 static QC_INLINE void columns(uint8_t *y, ptrdiff_t y_step, const int32_t *x, size_t x_step,
                                               size_t rows, size_t n, const __m512 a[4], const int vectors,
                                               const struct bytes *b, const bool is_signed)
{
    for (size_t r = 0; r < rows; r++)
        store(y + (ptrdiff_t)r * y_step, packed(x + r * x_step, a, vectors, b, is_signed), n);
}

QC_TARGET_AVX512 static QC_INLINE void rows_of(uint8_t *y, ptrdiff_t y_step, const int32_t *x, size_t x_step,
                                               size_t rows, size_t n, const float *factor, const bool channels,
                                               const struct bytes *b, const bool is_signed)
{
    __m512 a[4];
    for (int k = 0; k < 4; k++) a[k] = _mm512_set1_ps(*factor);
    if ((n == LANES || n == 2 * LANES) && x_step == n && y_step == (ptrdiff_t)n) {
        /* Rows that follow each other fill vectors together. */
        for (int k = 0; k < 4; k++)
            if (channels) a[k] = _mm512_loadu_ps(factor + (size_t)k * LANES % n);
        const size_t all = rows * n, rest = all % FULL;
        columns(y, FULL, x, FULL, all / FULL, FULL, a, 4, b, is_signed);
        if (rest) columns(y + all - rest, 0, x + all - rest, 0, 1, rest, a, (int)(rest / LANES), b, is_signed);
        return;
    }
    for (size_t i = 0; i < n; i += FULL) {
        const size_t left = n - i < FULL ? n - i : FULL;
        const int vectors = (int)((left + LANES - 1) / LANES);
        for (int k = 0; k < vectors && channels; k++) {
            const size_t more = left - (size_t)k * LANES;
            const __mmask16 mask = (__mmask16)(more < LANES ? (1U << more) - 1 : 0xffffU);
            a[k] = _mm512_maskz_loadu_ps(mask, factor + i + (size_t)k * LANES);
        }
        if (vectors == 4)
            columns(y + i, y_step, x + i, x_step, rows, left, a, 4, b, is_signed);
        else if (vectors == 3)
            columns(y + i, y_step, x + i, x_step, rows, left, a, 3, b, is_signed);
        else if (vectors == 2)
            columns(y + i, y_step, x + i, x_step, rows, left, a, 2, b, is_signed);
        else
            columns(y + i, y_step, x + i, x_step, rows, left, a, 1, b, is_signed);
    }
}

QC_TARGET_AVX512 static void rows_bytes(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step,
                                        const int32_t *x, size_t x_step, size_t rows, size_t n)
{
    const bool channels = c->rounding.count > 1;
    const struct bytes b = {.zero = _mm512_set1_epi16((short)c->zero),
                            .lo = _mm512_set1_epi8((char)c->lo),
                            .hi = _mm512_set1_epi8((char)c->hi)};
    const float *factor = c->rounding.a + (channels ? first : 0);
    if (c->is_signed)
        rows_of(y, y_step, x, x_step, rows, n, factor, channels, &b, true);
    else
        rows_of(y, y_step, x, x_step, rows, n, factor, channels, &b, false);
}

bool qc_convert_rows_run(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                         size_t x_step, size_t rows, size_t n)
{
    if (!QC_HAS_AVX512()) return false;
    if (c->uniform)
        rows_bytes(c, first, y, y_step, x, x_step, rows, n);
    else
        rows_any(c, first, y, y_step, x, x_step, rows, n);
    return true;
}
#else
bool qc_convert_rows_run(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                         size_t x_step, size_t rows, size_t n)
{
    (void)c, (void)first, (void)y, (void)y_step, (void)x, (void)x_step, (void)rows, (void)n;
    return false;
}
#endif
