// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/compensation.h"

#include "base/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define X86_TILES
#endif

/* Without an FMA instruction, fma() is a C library function: slow, with the same bits. */
static void tile_plain(double *c, size_t stride, const double *a, const double *b, size_t depth)
{
    for (size_t i = 0; i < QC_TILE; i++)
        for (size_t j = 0; j < QC_TILE; j++) {
            double s = c[i * stride + j];
            for (size_t p = 0; p < depth; p++) s = __builtin_fma(-a[p * QC_TILE + i], b[p * QC_TILE + j], s);
            c[i * stride + j] = s;
        }
}

/* by: step from one term to the next, 1 or -1. f and d point at the first term. */
static void lanes_plain(double *sum, const double *f, const double *d, size_t count, ptrdiff_t by)
{
    for (size_t t = 0; t < count; t++, f += by, d += by * QC_LANES)
        for (size_t l = 0; l < QC_LANES; l++) sum[l] = __builtin_fma(*f, d[l], sum[l]);
}

#ifdef X86_TILES
enum { ROWS = 8 }; /* rows of a tile with sums in registers */

QC_TARGET_AVX512 static void tile_avx512(double *c, size_t stride, const double *a, const double *b, size_t depth)
{
    for (size_t first = 0; first < QC_TILE; first += ROWS, c += ROWS * stride, a += ROWS) {
        __m512d sum[2 * ROWS];
#pragma GCC unroll 8
        for (size_t i = 0; i < ROWS; i++) {
            sum[2 * i] = _mm512_loadu_pd(c + i * stride);
            sum[2 * i + 1] = _mm512_loadu_pd(c + i * stride + 8);
        }
        for (size_t p = 0; p < depth; p++) {
            const __m512d y0 = _mm512_loadu_pd(b + p * QC_TILE), y1 = _mm512_loadu_pd(b + p * QC_TILE + 8);
#pragma GCC unroll 8
            for (size_t i = 0; i < ROWS; i++) {
                const __m512d x = _mm512_set1_pd(a[p * QC_TILE + i]);
                sum[2 * i] = _mm512_fnmadd_pd(x, y0, sum[2 * i]);
                sum[2 * i + 1] = _mm512_fnmadd_pd(x, y1, sum[2 * i + 1]);
            }
        }
#pragma GCC unroll 8
        for (size_t i = 0; i < ROWS; i++) {
            _mm512_storeu_pd(c + i * stride, sum[2 * i]);
            _mm512_storeu_pd(c + i * stride + 8, sum[2 * i + 1]);
        }
    }
}

/* Rows whose sums fit into the registers, with those of all lanes. */
enum { LANE_ROWS = 6, LANE_VECTORS = QC_LANES / 8 };

/* next: rows of f that are needed next, to be prefetched; NULL: none. */
QC_TARGET_AVX512 static void lanes_avx512(double *sum, const double *f, const double *next, size_t stride,
                                          const double *d, size_t count, ptrdiff_t by)
{
    enum { LINE = 8 }; /* numbers of a cache line */
    __m512d s[LANE_ROWS * LANE_VECTORS];
#pragma GCC unroll 24
    for (size_t i = 0; i < LANE_ROWS * LANE_VECTORS; i++) s[i] = _mm512_loadu_pd(sum + 8 * i);
    for (size_t t = 0; t < count; t++, f += by, d += by * QC_LANES) {
        const __m512d y0 = _mm512_loadu_pd(d), y1 = _mm512_loadu_pd(d + 8), y2 = _mm512_loadu_pd(d + 16),
                      y3 = _mm512_loadu_pd(d + 24);
        if (next && t % LINE < LANE_ROWS)
            __builtin_prefetch(next + (t % LINE) * stride + (ptrdiff_t)(t / LINE * LINE) * by);
#pragma GCC unroll 6
        for (size_t r = 0; r < LANE_ROWS; r++) {
            const __m512d x = _mm512_set1_pd(f[r * stride]);
            s[4 * r] = _mm512_fmadd_pd(x, y0, s[4 * r]);
            s[4 * r + 1] = _mm512_fmadd_pd(x, y1, s[4 * r + 1]);
            s[4 * r + 2] = _mm512_fmadd_pd(x, y2, s[4 * r + 2]);
            s[4 * r + 3] = _mm512_fmadd_pd(x, y3, s[4 * r + 3]);
        }
    }
#pragma GCC unroll 24
    for (size_t i = 0; i < LANE_ROWS * LANE_VECTORS; i++) _mm512_storeu_pd(sum + 8 * i, s[i]);
}

/* Updates four rows and eight columns. */
QC_TARGET_AVX2 static void corner_avx2(double *c, size_t stride, const double *a, const double *b, size_t depth)
{
    __m256d sum[8];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        sum[2 * i] = _mm256_loadu_pd(c + i * stride);
        sum[2 * i + 1] = _mm256_loadu_pd(c + i * stride + 4);
    }
    for (size_t p = 0; p < depth; p++) {
        const __m256d y0 = _mm256_loadu_pd(b + p * QC_TILE), y1 = _mm256_loadu_pd(b + p * QC_TILE + 4);
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            const __m256d x = _mm256_set1_pd(a[p * QC_TILE + i]);
            sum[2 * i] = _mm256_fnmadd_pd(x, y0, sum[2 * i]);
            sum[2 * i + 1] = _mm256_fnmadd_pd(x, y1, sum[2 * i + 1]);
        }
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_pd(c + i * stride, sum[2 * i]);
        _mm256_storeu_pd(c + i * stride + 4, sum[2 * i + 1]);
    }
}

static void tile_avx2(double *c, size_t stride, const double *a, const double *b, size_t depth)
{
    for (size_t i = 0; i < QC_TILE; i += 4)
        for (size_t j = 0; j < QC_TILE; j += 8) corner_avx2(c + i * stride + j, stride, a + i, b + j, depth);
}

/* Updates half of the lanes of two rows. */
QC_TARGET_AVX2 static void half_avx2(double *sum, const double *f, size_t stride, const double *d, size_t count,
                                     ptrdiff_t by)
{
    __m256d s[8];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        s[i] = _mm256_loadu_pd(sum + 4 * i);
        s[4 + i] = _mm256_loadu_pd(sum + QC_LANES + 4 * i);
    }
    for (size_t t = 0; t < count; t++, f += by, d += by * QC_LANES) {
        const __m256d x0 = _mm256_set1_pd(f[0]), x1 = _mm256_set1_pd(f[stride]);
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            const __m256d y = _mm256_loadu_pd(d + 4 * i);
            s[i] = _mm256_fmadd_pd(x0, y, s[i]);
            s[4 + i] = _mm256_fmadd_pd(x1, y, s[4 + i]);
        }
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) {
        _mm256_storeu_pd(sum + 4 * i, s[i]);
        _mm256_storeu_pd(sum + QC_LANES + 4 * i, s[4 + i]);
    }
}

static void lanes_avx2(double *sum, const double *f, size_t stride, const double *d, size_t count, ptrdiff_t by)
{
    for (size_t r = 0; r < 4; r += 2, sum += 2 * QC_LANES, f += 2 * stride) {
        half_avx2(sum, f, stride, d, count, by);
        half_avx2(sum + QC_LANES / 2, f, stride, d + QC_LANES / 2, count, by);
    }
}

/* Updates one row. */
QC_TARGET_AVX2 static void row_avx2(double *sum, const double *f, const double *d, size_t count, ptrdiff_t by)
{
    __m256d s[8];
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) s[i] = _mm256_loadu_pd(sum + 4 * i);
    for (size_t t = 0; t < count; t++, f += by, d += by * QC_LANES) {
        const __m256d x = _mm256_set1_pd(*f);
#pragma GCC unroll 8
        for (size_t i = 0; i < 8; i++) s[i] = _mm256_fmadd_pd(x, _mm256_loadu_pd(d + 4 * i), s[i]);
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) _mm256_storeu_pd(sum + 4 * i, s[i]);
}
#endif

void qc_tile_subtract(double *c, size_t stride, const double *a, const double *b, size_t depth)
{
#ifdef X86_TILES
    if (QC_HAS_AVX512()) {
        tile_avx512(c, stride, a, b, depth);
        return;
    }
    if (QC_HAS_AVX2()) {
        tile_avx2(c, stride, a, b, depth);
        return;
    }
#endif
    tile_plain(c, stride, a, b, depth);
}

static void lanes(double *sum, size_t rows, const double *f, size_t stride, const double *d, size_t count, ptrdiff_t by)
{
    size_t r = 0;
    if (!count) return;
#ifdef X86_TILES
    const bool wide = QC_HAS_AVX512(), vectors = wide || QC_HAS_AVX2();
    for (; wide && r + LANE_ROWS <= rows; r += LANE_ROWS)
        lanes_avx512(sum + r * QC_LANES, f + r * stride,
                     r + 2 * LANE_ROWS <= rows ? f + (r + LANE_ROWS) * stride : NULL, stride, d, count, by);
    for (; vectors && r + 4 <= rows; r += 4) lanes_avx2(sum + r * QC_LANES, f + r * stride, stride, d, count, by);
    for (; vectors && r < rows; r++) row_avx2(sum + r * QC_LANES, f + r * stride, d, count, by);
#endif
    for (; r < rows; r++) lanes_plain(sum + r * QC_LANES, f + r * stride, d, count, by);
}

void qc_lanes_add_up(double *sum, size_t rows, const double *f, size_t stride, const double *d, size_t count)
{
    lanes(sum, rows, f, stride, d, count, 1);
}

void qc_lanes_add_down(double *sum, size_t rows, const double *f, size_t stride, const double *d, size_t count)
{
    if (count) lanes(sum, rows, f + count - 1, stride, d + (count - 1) * QC_LANES, count, -1);
}

static void floats_plain(float *sum, const float *f, const float *d, size_t count)
{
    for (size_t t = 0; t < count; t++, d += QC_LANES)
        for (size_t l = 0; l < QC_LANES; l++) sum[l] = __builtin_fmaf(f[t], d[l], sum[l]);
}

#ifdef X86_TILES
enum { FLOAT_ROWS = 8 }; /* rows with sums in registers */

QC_TARGET_AVX512 static void floats_avx512(float *sum, const float *f, size_t stride, const float *d, size_t count)
{
    __m512 s[2 * FLOAT_ROWS];
#pragma GCC unroll 16
    for (size_t i = 0; i < 2 * FLOAT_ROWS; i++) s[i] = _mm512_loadu_ps(sum + 16 * i);
    for (size_t t = 0; t < count; t++, f++, d += QC_LANES) {
        const __m512 y0 = _mm512_loadu_ps(d), y1 = _mm512_loadu_ps(d + 16);
#pragma GCC unroll 8
        for (size_t r = 0; r < FLOAT_ROWS; r++) {
            const __m512 x = _mm512_set1_ps(f[r * stride]);
            s[2 * r] = _mm512_fmadd_ps(x, y0, s[2 * r]);
            s[2 * r + 1] = _mm512_fmadd_ps(x, y1, s[2 * r + 1]);
        }
    }
#pragma GCC unroll 16
    for (size_t i = 0; i < 2 * FLOAT_ROWS; i++) _mm512_storeu_ps(sum + 16 * i, s[i]);
}

QC_TARGET_AVX2 static void floats_avx2(float *sum, const float *f, size_t stride, const float *d, size_t count)
{
    __m256 s[8]; /* two rows */
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) s[i] = _mm256_loadu_ps(sum + 8 * i);
    for (size_t t = 0; t < count; t++, f++, d += QC_LANES) {
        const __m256 x0 = _mm256_set1_ps(f[0]), x1 = _mm256_set1_ps(f[stride]);
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) {
            const __m256 y = _mm256_loadu_ps(d + 8 * i);
            s[i] = _mm256_fmadd_ps(x0, y, s[i]);
            s[4 + i] = _mm256_fmadd_ps(x1, y, s[4 + i]);
        }
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) _mm256_storeu_ps(sum + 8 * i, s[i]);
}

QC_TARGET_AVX2 static void float_row_avx2(float *sum, const float *f, const float *d, size_t count)
{
    __m256 s[4];
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) s[i] = _mm256_loadu_ps(sum + 8 * i);
    for (size_t t = 0; t < count; t++, d += QC_LANES) {
        const __m256 x = _mm256_set1_ps(f[t]);
#pragma GCC unroll 4
        for (size_t i = 0; i < 4; i++) s[i] = _mm256_fmadd_ps(x, _mm256_loadu_ps(d + 8 * i), s[i]);
    }
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; i++) _mm256_storeu_ps(sum + 8 * i, s[i]);
}
#endif

void qc_lanes_add_up_f32(float *sum, size_t rows, const float *f, size_t stride, const float *d, size_t count)
{
    size_t r = 0;
#ifdef X86_TILES
    if (QC_HAS_AVX512())
        for (; r + FLOAT_ROWS <= rows; r += FLOAT_ROWS)
            floats_avx512(sum + r * QC_LANES, f + r * stride, stride, d, count);
    if (QC_HAS_AVX2()) {
        for (; r + 2 <= rows; r += 2) floats_avx2(sum + r * QC_LANES, f + r * stride, stride, d, count);
        for (; r < rows; r++) float_row_avx2(sum + r * QC_LANES, f + r * stride, d, count);
    }
#endif
    for (; r < rows; r++) floats_plain(sum + r * QC_LANES, f + r * stride, d, count);
}

static QC_INLINE void carry_body(double *restrict sum, const double *restrict f, const double *restrict d, size_t rows)
{
    for (size_t r = 0; r < rows; r++)
        for (size_t l = 0; l < QC_LANES; l++) sum[r * QC_LANES + l] = __builtin_fma(f[r], d[l], sum[r * QC_LANES + l]);
}
QC_SIMD(carry, (double *sum, const double *f, const double *d, size_t rows), (sum, f, d, rows))

void qc_lanes_carry(double *sum, const double *f, const double *d, size_t rows)
{
    carry(sum, f, d, rows);
}

#ifdef X86_TILES
/* Adds to LANE_ROWS rows from `at`, whose sums stay in registers. */
QC_TARGET_AVX512 static void carry_all_avx512(double *sum, const double *const *f, size_t at, const double *d,
                                              size_t count)
{
    enum { FORWARD = 32 }; /* four cache lines */
    __m512d s[LANE_ROWS * LANE_VECTORS];
#pragma GCC unroll 24
    for (size_t i = 0; i < LANE_ROWS * LANE_VECTORS; i++) s[i] = _mm512_loadu_pd(sum + 8 * i);
    for (size_t t = 0; t < count; t++, d += QC_LANES) {
        const double *row = f[t] + at;
        const __m512d y0 = _mm512_loadu_pd(d), y1 = _mm512_loadu_pd(d + 8), y2 = _mm512_loadu_pd(d + 16),
                      y3 = _mm512_loadu_pd(d + 24);
        __builtin_prefetch(row + FORWARD);
#pragma GCC unroll 6
        for (size_t r = 0; r < LANE_ROWS; r++) {
            const __m512d x = _mm512_set1_pd(row[r]);
            s[4 * r] = _mm512_fmadd_pd(x, y0, s[4 * r]);
            s[4 * r + 1] = _mm512_fmadd_pd(x, y1, s[4 * r + 1]);
            s[4 * r + 2] = _mm512_fmadd_pd(x, y2, s[4 * r + 2]);
            s[4 * r + 3] = _mm512_fmadd_pd(x, y3, s[4 * r + 3]);
        }
    }
#pragma GCC unroll 24
    for (size_t i = 0; i < LANE_ROWS * LANE_VECTORS; i++) _mm512_storeu_pd(sum + 8 * i, s[i]);
}

/* Adds to one row. */
QC_TARGET_AVX2 static void carry_all_avx2(double *sum, const double *const *f, size_t at, const double *d, size_t count)
{
    __m256d s[8];
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) s[i] = _mm256_loadu_pd(sum + 4 * i);
    for (size_t t = 0; t < count; t++, d += QC_LANES) {
        const __m256d x = _mm256_set1_pd(f[t][at]);
#pragma GCC unroll 8
        for (size_t i = 0; i < 8; i++) s[i] = _mm256_fmadd_pd(x, _mm256_loadu_pd(d + 4 * i), s[i]);
    }
#pragma GCC unroll 8
    for (size_t i = 0; i < 8; i++) _mm256_storeu_pd(sum + 4 * i, s[i]);
}
#endif

void qc_lanes_carry_all(double *sum, const double *const *f, const double *d, size_t first, size_t end, size_t count)
{
    size_t r = first;
#ifdef X86_TILES
    const bool wide = QC_HAS_AVX512(), vectors = wide || QC_HAS_AVX2();
    for (; wide && r + LANE_ROWS <= end; r += LANE_ROWS) carry_all_avx512(sum + r * QC_LANES, f, r, d, count);
    for (; vectors && r < end; r++) carry_all_avx2(sum + r * QC_LANES, f, r, d, count);
#endif
    for (size_t t = 0; r < end && t < count; t++) carry(sum + r * QC_LANES, f[t] + r, d + t * QC_LANES, end - r);
}
