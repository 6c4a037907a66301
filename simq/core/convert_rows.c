// SPDX-License-Identifier: Apache-2.0
#include "simq/core/convert.h"

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
        c->uniform = zero == c->zero && lo == c->lo && hi == c->hi;
        c->large = c->large || !(r->a[i] < 1);
    }
    c->plain = c->uniform && !c->large && c->zero == 0 && c->lo == (c->is_signed ? INT8_MIN : 0) &&
               c->hi == (c->is_signed ? INT8_MAX : UINT8_MAX);
}

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

enum { LANES = 16, FULL = 4 * LANES };

/* Clamps before rounding; parameters may differ by channel. The conversion instruction rounds half to even, as
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
    __m512 a[4]; /* factors */
};

/* Converts four vectors of accumulators to 64 bytes. Each step saturates, so the bounds can be applied after
   rounding. A product below the int32 range, or NaN, converts to INT32_MIN, which saturates to the lowest level.
   Products above the range are clamped first (`large`). */
QC_TARGET_AVX512 static QC_INLINE __m512i packed_convert_rows(const int32_t *x, const struct bytes *b,
                                                              const struct qc_convert_form f)
{
    __m512i q[4];
    for (int k = 0; k < 4; k++) {
        __m512 v = _mm512_setzero_ps();
        if (k < f.vectors) v = _mm512_mul_ps(_mm512_cvtepi32_ps(_mm512_loadu_si512(x + (ptrdiff_t)LANES * k)), b->a[k]);
        if (f.large) v = _mm512_min_ps(_mm512_set1_ps(INT16_MAX), v);
        q[k] = _mm512_cvtps_epi32(v);
    }
    __m512i low = _mm512_packs_epi32(q[0], q[1]), high = _mm512_packs_epi32(q[2], q[3]);
    if (!f.plain) {
        low = _mm512_adds_epi16(low, b->zero);
        high = _mm512_adds_epi16(high, b->zero);
    }
    /* Packing works within 16-byte lanes: lane l holds four bytes of each vector. */
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    if (f.is_signed) {
        const __m512i v = _mm512_permutexvar_epi32(order, _mm512_packs_epi16(low, high));
        return f.plain ? v : _mm512_min_epi8(_mm512_max_epi8(v, b->lo), b->hi);
    }
    const __m512i v = _mm512_permutexvar_epi32(order, _mm512_packus_epi16(low, high));
    return f.plain ? v : _mm512_min_epu8(_mm512_max_epu8(v, b->lo), b->hi);
}

/* Converts n channels of each row, at most 64. */
QC_TARGET_AVX512 static QC_INLINE void columns_convert_rows(uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                                                            size_t x_step, size_t rows, size_t n,
                                                            const struct bytes *bytes, const struct qc_convert_form f)
{
    const __mmask64 mask = f.whole ? 0 : (UINT64_C(1) << n) - 1;
    const struct bytes b = *bytes;
    for (size_t r = 0; r < rows; r++, x += x_step, y += y_step) {
        const __m512i v = packed_convert_rows(x, &b, f);
        if (!f.whole)
            _mm512_mask_storeu_epi8(y, mask, v);
        else if (f.vectors == 4)
            _mm512_storeu_si512(y, v);
        else if (f.vectors > 1)
            _mm256_storeu_si256((__m256i *)(void *)y, _mm512_castsi512_si256(v));
        if (f.whole && (f.vectors & 1))
            _mm_storeu_si128((__m128i *)(void *)(y + (ptrdiff_t)LANES * (f.vectors - 1)),
                             f.vectors == 1 ? _mm512_castsi512_si128(v) : _mm512_extracti32x4_epi32(v, 2));
    }
}

QC_TARGET_AVX512 static QC_INLINE void any_columns(uint8_t *y, ptrdiff_t y_step, const int32_t *x, size_t x_step,
                                                   size_t rows, size_t n, const struct bytes *b,
                                                   struct qc_convert_form f)
{
    f.vectors = (int)((n + LANES - 1) / LANES);
    f.whole = n % LANES == 0;
#define QC_CASE(v, w)                                                                                                  \
    if (f.vectors == (v) && f.whole == (w))                                                                            \
    columns_convert_rows(y, y_step, x, x_step, rows, n, b,                                                             \
                         (struct qc_convert_form){.vectors = (v),                                                      \
                                                  .whole = (w),                                                        \
                                                  .is_signed = f.is_signed,                                            \
                                                  .large = f.large,                                                    \
                                                  .plain = f.plain})
    QC_CASE(4, true);
    else QC_CASE(3, true);
    else QC_CASE(2, true);
    else QC_CASE(1, true);
    else QC_CASE(4, false);
    else QC_CASE(3, false);
    else QC_CASE(2, false);
    else QC_CASE(1, false);
#undef QC_CASE
}

QC_TARGET_AVX512 static QC_INLINE void rows_of_convert_rows(const struct qc_convert_rows *c, size_t first, uint8_t *y,
                                                            ptrdiff_t y_step, const int32_t *x, size_t x_step,
                                                            size_t rows, size_t n, const struct qc_convert_form f)
{
    const bool channels = c->rounding.count > 1;
    const float *factor = c->rounding.a + (channels ? first : 0);
    struct bytes b; /* not initialised: an initialiser would clear it first */
    b.zero = _mm512_set1_epi16((short)c->zero);
    b.lo = _mm512_set1_epi8((char)c->lo);
    b.hi = _mm512_set1_epi8((char)c->hi);
    for (int k = 0; k < 4; k++) b.a[k] = _mm512_set1_ps(*factor);
    if ((n == LANES || n == 2 * LANES) && x_step == n && y_step == (ptrdiff_t)n) {
        /* Contiguous rows fill vectors together. */
        for (int k = 0; k < 4; k++)
            if (channels) b.a[k] = _mm512_loadu_ps(factor + (size_t)k * LANES % n);
        const size_t all = rows * n, rest = all % FULL;
        any_columns(y, FULL, x, FULL, all / FULL, FULL, &b, f);
        if (rest) any_columns(y + all - rest, 0, x + all - rest, 0, 1, rest, &b, f);
        return;
    }
    for (size_t i = 0; i < n; i += FULL) {
        const size_t left = n - i < FULL ? n - i : FULL;
        for (size_t k = 0; k * LANES < left && channels; k++) {
            const size_t more = left - k * LANES;
            const __mmask16 mask = (__mmask16)(more < LANES ? (1U << more) - 1 : 0xffffU);
            b.a[k] = _mm512_maskz_loadu_ps(mask, factor + i + k * LANES);
        }
        any_columns(y + i, y_step, x + i, x_step, rows, left, &b, f);
    }
}

QC_CONVERT_FORMS(static, rows_uniform, QC_TARGET_AVX512, rows_of_convert_rows)

bool qc_convert_rows_run(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                         size_t x_step, size_t rows, size_t n)
{
    if (!QC_HAS_AVX512()) {
        if (!c->uniform || !QC_HAS_AVX2()) return false;
        qc_convert_rows_avx2(c, first, y, y_step, x, x_step, rows, n);
        return true;
    }
    if (!c->uniform)
        rows_any(c, first, y, y_step, x, x_step, rows, n);
    else
        rows_uniform(c, first, y, y_step, x, x_step, rows, n);
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
