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
/* Defines a function that adds `count` products, one after the other, to ROWS rows of COLUMNS vectors of sums, which
   stay in registers. P and S: prefix and suffix of the instructions on vectors of TYPE. FMA: fmadd, or fnmadd for
   negative products. The parameters, among them sum, count and d, the first row of factors; width: from one row of sums
   to the next. X: the other factor of row r in term t. EARLY: what each term does before, LATE: how it goes on. */
#define QC_SUMS_KERNEL(name, target, TYPE, P, S, FMA, ROWS, COLUMNS, parameters, width, X, EARLY, LATE)                \
    target static void name parameters                                                                                 \
    {                                                                                                                  \
        enum { EACH = sizeof(TYPE) / sizeof *sum };                                                                    \
        TYPE s[ROWS][COLUMNS], x[ROWS];                                                                                \
        QC_UNROLL for (size_t r = 0; r < (ROWS); r++) QC_UNROLL for (size_t v = 0; v < (COLUMNS); v++) s[r][v] =       \
            P##loadu_##S(sum + r * (width) + v * EACH);                                                                \
        for (size_t t = 0; t < count; t++) {                                                                           \
            EARLY;                                                                                                     \
            QC_UNROLL for (size_t r = 0; r < (ROWS); r++) x[r] = P##set1_##S(X);                                       \
            QC_UNROLL for (size_t v = 0; v < (COLUMNS); v++)                                                           \
            {                                                                                                          \
                const TYPE y = P##loadu_##S(d + v * EACH);                                                             \
                QC_UNROLL for (size_t r = 0; r < (ROWS); r++) s[r][v] = P##FMA##_##S(x[r], y, s[r][v]);                \
            }                                                                                                          \
            LATE;                                                                                                      \
        }                                                                                                              \
        QC_UNROLL for (size_t r = 0; r < (ROWS); r++) QC_UNROLL for (size_t v = 0; v < (COLUMNS); v++)                 \
            P##storeu_##S(sum + r * (width) + v * EACH, s[r][v]);                                                      \
    }

/* Part of a tile: 8 rows of all columns, or 4 of 8. */
#define QC_PART_OF_TILE(name, target, TYPE, P, ROWS)                                                                   \
    QC_SUMS_KERNEL(name, target, TYPE, P, pd, fnmadd, ROWS, 2,                                                         \
                   (double *sum, size_t stride, const double *f, const double *d, size_t count), stride, f[r], ,       \
                   (f += QC_TILE, d += QC_TILE))
QC_PART_OF_TILE(tile_avx512, QC_TARGET_AVX512, __m512d, _mm512_, 8)
QC_PART_OF_TILE(tile_avx2, QC_TARGET_AVX2, __m256d, _mm256_, 4)

/* Rows whose sums fit into the registers, with those of all lanes; numbers of a cache line. */
enum { LANE_ROWS = 6, FLOAT_ROWS = 8, LINE = 8 };

/* next: rows of f that are needed next, to be prefetched; NULL: none. half: of the lanes of two rows. */
#define QC_LANES_KERNEL(name, target, TYPE, P, ROWS, COLUMNS, EARLY)                                                   \
    QC_SUMS_KERNEL(name, target, TYPE, P, pd, fmadd, ROWS, COLUMNS,                                                    \
                   (double *sum, const double *f, const double *next, size_t stride, const double *d, size_t count,    \
                    ptrdiff_t by),                                                                                     \
                   QC_LANES, f[r * stride], EARLY, (f += by, d += by * QC_LANES))
QC_LANES_KERNEL(lanes_avx512, QC_TARGET_AVX512, __m512d, _mm512_, LANE_ROWS, QC_LANES / 8,
                if (next && t % LINE < LANE_ROWS)
                    __builtin_prefetch(next + (t % LINE) * stride + (ptrdiff_t)(t / LINE * LINE) * by))
QC_LANES_KERNEL(half_avx2, QC_TARGET_AVX2, __m256d, _mm256_, 2, QC_LANES / 8, )
QC_LANES_KERNEL(row_avx2, QC_TARGET_AVX2, __m256d, _mm256_, 1, QC_LANES / 4, )

#define QC_FLOATS_KERNEL(name, target, TYPE, P, ROWS, COLUMNS)                                                         \
    QC_SUMS_KERNEL(name, target, TYPE, P, ps, fmadd, ROWS, COLUMNS,                                                    \
                   (float *sum, const float *f, size_t stride, const float *d, size_t count), QC_LANES, f[r * stride], \
                   , (f++, d += QC_LANES))
QC_FLOATS_KERNEL(floats_avx512, QC_TARGET_AVX512, __m512, _mm512_, FLOAT_ROWS, QC_LANES / 16)
QC_FLOATS_KERNEL(floats_avx2, QC_TARGET_AVX2, __m256, _mm256_, 2, QC_LANES / 8)
QC_FLOATS_KERNEL(float_row_avx2, QC_TARGET_AVX2, __m256, _mm256_, 1, QC_LANES / 8)

/* f: rows of factors; at: the first of them. */
#define QC_CARRY_KERNEL(name, target, TYPE, P, ROWS, COLUMNS, EARLY)                                                   \
    QC_SUMS_KERNEL(name, target, TYPE, P, pd, fmadd, ROWS, COLUMNS,                                                    \
                   (double *sum, const double *const *f, size_t at, const double *d, size_t count), QC_LANES,          \
                   f[t][at + r], EARLY, d += QC_LANES)
QC_CARRY_KERNEL(carry_all_avx512, QC_TARGET_AVX512, __m512d, _mm512_, LANE_ROWS, QC_LANES / 8,
                __builtin_prefetch(f[t] + at + 4 * LINE))
QC_CARRY_KERNEL(carry_all_avx2, QC_TARGET_AVX2, __m256d, _mm256_, 1, QC_LANES / 4, )
#endif

void qc_tile_subtract(double *c, size_t stride, const double *a, const double *b, size_t depth)
{
#ifdef X86_TILES
    if (QC_HAS_AVX512()) {
        for (size_t i = 0; i < QC_TILE; i += 8) tile_avx512(c + i * stride, stride, a + i, b, depth);
        return;
    }
    if (QC_HAS_AVX2()) {
        for (size_t i = 0; i < QC_TILE; i += 4)
            for (size_t j = 0; j < QC_TILE; j += 8) tile_avx2(c + i * stride + j, stride, a + i, b + j, depth);
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
    for (; vectors && r + 2 <= rows; r += 2)
        for (size_t l = 0; l < QC_LANES; l += QC_LANES / 2)
            half_avx2(sum + r * QC_LANES + l, f + r * stride, NULL, stride, d + l, count, by);
    for (; vectors && r < rows; r++) row_avx2(sum + r * QC_LANES, f + r * stride, NULL, stride, d, count, by);
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

void qc_lanes_add_up_f32(float *sum, size_t rows, const float *f, size_t stride, const float *d, size_t count)
{
    size_t r = 0;
#ifdef X86_TILES
    if (QC_HAS_AVX512())
        for (; r + FLOAT_ROWS <= rows; r += FLOAT_ROWS)
            floats_avx512(sum + r * QC_LANES, f + r * stride, stride, d, count);
    if (QC_HAS_AVX2()) {
        for (; r + 2 <= rows; r += 2) floats_avx2(sum + r * QC_LANES, f + r * stride, stride, d, count);
        for (; r < rows; r++) float_row_avx2(sum + r * QC_LANES, f + r * stride, stride, d, count);
    }
#endif
    for (; r < rows; r++) floats_plain(sum + r * QC_LANES, f + r * stride, d, count);
}

QC_VECTOR_EXPORTED(qc_lanes_carry,
                   (double *restrict sum, const double *restrict f, const double *restrict d, size_t rows),
                   (sum, f, d, rows))
{
    for (size_t r = 0; r < rows; r++)
        for (size_t l = 0; l < QC_LANES; l++) sum[r * QC_LANES + l] = __builtin_fma(f[r], d[l], sum[r * QC_LANES + l]);
}

void qc_lanes_carry_all(double *sum, const double *const *f, const double *d, size_t first, size_t end, size_t count)
{
    size_t r = first;
#ifdef X86_TILES
    const bool wide = QC_HAS_AVX512(), vectors = wide || QC_HAS_AVX2();
    for (; wide && r + LANE_ROWS <= end; r += LANE_ROWS) carry_all_avx512(sum + r * QC_LANES, f, r, d, count);
    for (; vectors && r < end; r++) carry_all_avx2(sum + r * QC_LANES, f, r, d, count);
#endif
    for (size_t t = 0; r < end && t < count; t++)
        qc_lanes_carry(sum + r * QC_LANES, f[t] + r, d + t * QC_LANES, end - r);
}
