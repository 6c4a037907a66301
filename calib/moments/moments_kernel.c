// SPDX-License-Identifier: Apache-2.0
#include "calib/moments/moments_kernel.h"

#include <math.h>
#include <string.h>

#include "base/simd.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define X86_TILES
#endif

_Static_assert((int64_t)QC_MOMENTS_ROWS *QC_MOMENTS_LEVEL *QC_MOMENTS_LEVEL <= INT32_MAX,
               "sums over a full buffer fit into 32 bits");

/* Adding and subtracting 1.5 * 2^23 rounds to an integer, half to even; the clamp keeps the sum in the range where that
   holds. */
static QC_INLINE int16_t quantize_one(float x, float factor)
{
    const float magic = 12582912.0f, top = (float)QC_MOMENTS_LEVEL;
    float y = x * factor;
    y = y > top ? top : y;
    y = y < -top ? -top : y;
    return (int16_t)((y + magic) - magic);
}

static QC_INLINE void qc_second_moments_quantize_body(int16_t *to, const float *x, size_t n, int64_t stride,
                                                      float factor)
{
    if (stride == 1) {
        for (size_t i = 0; i < n; i++) to[i] = quantize_one(x[i], factor);
        return;
    }
    for (size_t i = 0; i < n; i++) to[i] = quantize_one(x[(int64_t)i * stride], factor);
}
QC_SIMD_EXPORTED(qc_second_moments_quantize, (int16_t * to, const float *x, size_t n, int64_t stride, float factor),
                 (to, x, n, stride, factor))

/* Magnitudes of floats sort like their bits; NaN sorts above infinity. */
static QC_INLINE void peak_body(uint32_t *out, const float *x, size_t n)
{
    uint32_t top = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t b;
        memcpy(&b, x + i, sizeof b);
        b &= 0x7fffffffu;
        top = b > top ? b : top;
    }
    *out = top;
}
QC_SIMD(peak, (uint32_t * out, const float *x, size_t n), (out, x, n))

float qc_second_moments_peak(const float *x, size_t n, int64_t stride)
{
    uint32_t top = 0;
    float f;
    if (stride == 1) {
        peak(&top, x, n);
    } else {
        for (size_t i = 0; i < n; i++) {
            uint32_t one;
            peak(&one, x + (int64_t)i * stride, 1);
            top = one > top ? one : top;
        }
    }
    if (top > 0x7f800000u) return INFINITY;
    memcpy(&f, &top, sizeof f);
    return f;
}

static QC_INLINE void pair_peak_body(uint32_t *out, const float *x, const float *real, size_t n)
{
    uint32_t top = 0;
    for (size_t i = 0; i < n; i++) {
        const float apart = real[i] - x[i];
        uint32_t a, b;
        memcpy(&a, x + i, sizeof a);
        memcpy(&b, &apart, sizeof b);
        a &= 0x7fffffffu;
        b &= 0x7fffffffu;
        a = a > b ? a : b;
        top = a > top ? a : top;
    }
    *out = top;
}
QC_SIMD(pair_peak, (uint32_t * out, const float *x, const float *real, size_t n), (out, x, real, n))

float qc_second_moments_pair_peak(const float *x, const float *real, size_t n)
{
    uint32_t top;
    float f;
    pair_peak(&top, x, real, n);
    if (top > 0x7f800000u) return INFINITY;
    memcpy(&f, &top, sizeof f);
    return f;
}

static QC_INLINE void pack_body(int16_t *restrict to, const int16_t *restrict rows, size_t count, size_t stride,
                                size_t n)
{
    for (size_t r = 0; r < count; r += 2, to += QC_MOMENTS_PAIR_SIZE) {
        const int16_t *a = rows + r * stride, *b = r + 1 < count ? a + stride : NULL;
        if (n == QC_MOMENTS_TILE && b) {
            for (size_t i = 0; i < QC_MOMENTS_TILE; i++) {
                to[2 * i] = a[i];
                to[2 * i + 1] = b[i];
            }
            continue;
        }
        for (size_t i = 0; i < QC_MOMENTS_TILE; i++) {
            to[2 * i] = i < n ? a[i] : 0;
            to[2 * i + 1] = i < n && b ? b[i] : 0;
        }
    }
}
QC_SIMD(pack, (int16_t * to, const int16_t *rows, size_t count, size_t stride, size_t n), (to, rows, count, stride, n))

void qc_second_moments_pack(int16_t *panels, const int16_t *rows, size_t count, size_t stride, size_t first,
                            size_t width)
{
    const size_t pairs = (count + 1) / 2;
    for (size_t at = 0; at < width; at += QC_MOMENTS_TILE, panels += pairs * QC_MOMENTS_PAIR_SIZE) {
        const size_t left = width - at;
        pack(panels, rows + first + at, count, stride, left < QC_MOMENTS_TILE ? left : QC_MOMENTS_TILE);
    }
}

static void tile_plain(int32_t *sum, const int16_t *a, const int16_t *b, size_t pairs)
{
    memset(sum, 0, QC_MOMENTS_TILE_SIZE * sizeof *sum);
    for (size_t p = 0; p < pairs; p++, a += QC_MOMENTS_PAIR_SIZE, b += QC_MOMENTS_PAIR_SIZE)
        for (size_t i = 0; i < QC_MOMENTS_TILE; i++)
            for (size_t j = 0; j < QC_MOMENTS_TILE; j++)
                sum[i * QC_MOMENTS_TILE + j] += (int32_t)a[2 * i] * b[2 * j] + (int32_t)a[2 * i + 1] * b[2 * j + 1];
}

#ifdef X86_TILES
QC_TARGET_AVX512 static __m512i pair_512(const int16_t *p)
{
    int32_t two;
    memcpy(&two, p, sizeof two);
    return _mm512_set1_epi32(two);
}

/* Sums are separate variables pinned to registers: with an array the compiler copies all of them at each step. */
#define TILE_ROWS(DO)                                                                                                  \
    DO(0) DO(1) DO(2) DO(3) DO(4) DO(5) DO(6) DO(7) DO(8) DO(9) DO(10) DO(11) DO(12) DO(13) DO(14) DO(15)
#define BEGIN(i) __m512i s##i = _mm512_setzero_si512();
#define STEP(i)                                                                                                        \
    s##i = ADD_PAIRS(s##i, y, pair_512(a + 2 * i));                                                                    \
    __asm__("" : "+v"(s##i));
#define END(i) _mm512_storeu_si512(sum + i * QC_MOMENTS_TILE, s##i);
#define TILE_BODY                                                                                                      \
    TILE_ROWS(BEGIN)                                                                                                   \
    for (size_t p = 0; p < pairs; p++, a += QC_MOMENTS_PAIR_SIZE, b += QC_MOMENTS_PAIR_SIZE) {                         \
        const __m512i y = _mm512_loadu_si512(b);                                                                       \
        TILE_ROWS(STEP)                                                                                                \
    }                                                                                                                  \
    TILE_ROWS(END)

#define ADD_PAIRS(sum, y, x) _mm512_add_epi32(sum, _mm512_madd_epi16(x, y))
QC_TARGET_AVX512 static void tile_avx512(int32_t *sum, const int16_t *a, const int16_t *b, size_t pairs)
{
    TILE_BODY
}
#undef ADD_PAIRS

/* The same with one instruction that multiplies and adds. It does not saturate, and the sum never overflows. */
#define ADD_PAIRS(sum, y, x) _mm512_dpwssd_epi32(sum, y, x)
#define TARGET_VNNI __attribute__((target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl,avx512vnni")))
TARGET_VNNI static void tile_vnni(int32_t *sum, const int16_t *a, const int16_t *b, size_t pairs)
{
    TILE_BODY
}

enum { HALF = 4 }; /* rows of a tile processed together, with sums in registers */

QC_TARGET_AVX2 static __m256i pair_256(const int16_t *p)
{
    int32_t two;
    memcpy(&two, p, sizeof two);
    return _mm256_set1_epi32(two);
}

QC_TARGET_AVX2 static void rows_avx2(int32_t *to, const int16_t *a, const int16_t *b, size_t pairs)
{
    __m256i sum[2 * HALF];
    for (int i = 0; i < 2 * HALF; i++) sum[i] = _mm256_setzero_si256();
    for (size_t p = 0; p < pairs; p++, a += QC_MOMENTS_PAIR_SIZE, b += QC_MOMENTS_PAIR_SIZE) {
        const __m256i y0 = _mm256_loadu_si256((const __m256i *)(const void *)b),
                      y1 = _mm256_loadu_si256((const __m256i *)(const void *)(b + QC_MOMENTS_TILE));
#pragma GCC unroll 4
        for (int i = 0; i < HALF; i++) {
            const __m256i x = pair_256(a + 2 * i);
            sum[2 * i] = _mm256_add_epi32(sum[2 * i], _mm256_madd_epi16(x, y0));
            sum[2 * i + 1] = _mm256_add_epi32(sum[2 * i + 1], _mm256_madd_epi16(x, y1));
        }
    }
    for (size_t i = 0; i < 2 * HALF; i++)
        _mm256_storeu_si256((__m256i *)(void *)(to + i * (QC_MOMENTS_TILE / 2)), sum[i]);
}

static void tile_avx2(int32_t *sum, const int16_t *a, const int16_t *b, size_t pairs)
{
    for (size_t i = 0; i < QC_MOMENTS_TILE; i += HALF) rows_avx2(sum + i * QC_MOMENTS_TILE, a + 2 * i, b, pairs);
}
#endif

void qc_second_moments_tile(int32_t *sum, const int16_t *a, const int16_t *b, size_t pairs)
{
#ifdef X86_TILES
    if (QC_HAS_AVX512() && __builtin_cpu_supports("avx512vnni")) {
        tile_vnni(sum, a, b, pairs);
        return;
    }
    if (QC_HAS_AVX512()) {
        tile_avx512(sum, a, b, pairs);
        return;
    }
    if (QC_HAS_AVX2()) {
        tile_avx2(sum, a, b, pairs);
        return;
    }
#endif
    tile_plain(sum, a, b, pairs);
}

/* Intermediate sums may wrap in 32 bits: the final result fits. */
static QC_INLINE void add_narrow(int32_t *restrict to, const int32_t *restrict sum, size_t n, int shift)
{
    for (size_t i = 0; i < n; i++) to[i] = (int32_t)((uint32_t)to[i] + ((uint32_t)sum[i] << shift));
}
static QC_INLINE void add_wide(int64_t *restrict to, const int32_t *restrict sum, size_t n, int shift)
{
    for (size_t i = 0; i < n; i++) to[i] += (int64_t)sum[i] * ((int64_t)1 << shift);
}

/* sum [columns][QC_MOMENTS_TILE]; the entries of a column are one after the other. */
static QC_INLINE void add_columns_body(const struct qc_second_moments_sink *to, size_t at, size_t k, size_t columns,
                                       bool diagonal, const int32_t *sum)
{
    for (size_t c = 0; c < columns; c++, at += k + c, sum += QC_MOMENTS_TILE) {
        if (diagonal && to->narrow)
            add_narrow(to->narrow + at, sum, c + 1, to->shift);
        else if (diagonal)
            add_wide(to->wide + at, sum, c + 1, to->shift);
        else if (to->narrow)
            add_narrow(to->narrow + at, sum, QC_MOMENTS_TILE, to->shift);
        else
            add_wide(to->wide + at, sum, QC_MOMENTS_TILE, to->shift);
    }
}
QC_SIMD(add_columns,
        (const struct qc_second_moments_sink *to, size_t at, size_t k, size_t columns, bool diagonal,
         const int32_t *sum),
        (to, at, k, columns, diagonal, sum))

/* Prefetches the entries while the sums are computed: they are too many to stay in a cache. */
void qc_second_moments_add_tile(const struct qc_second_moments_sink *to, size_t at, size_t k, size_t columns,
                                bool diagonal, const int16_t *a, const int16_t *b, size_t pairs)
{
    int32_t sum[QC_MOMENTS_TILE_SIZE];
    size_t soon = at;
    for (size_t c = 0; c < columns; c++, soon += k + c) {
        __builtin_prefetch(to->narrow ? (const void *)(to->narrow + soon) : to->wide + soon, 1);
        __builtin_prefetch(to->narrow ? (const void *)(to->narrow + soon + QC_MOMENTS_TILE - 1)
                                      : to->wide + soon + QC_MOMENTS_TILE / 2,
                           1);
    }
    qc_second_moments_tile(sum, a, b, pairs);
    add_columns(to, at, k, columns, diagonal, sum);
}

/* The two products of a pair, and their sum, fit into 32 bits. */
static QC_INLINE void row_body(int32_t *restrict sum, const int16_t *restrict a, const int16_t *restrict b,
                               size_t pairs)
{
    for (size_t p = 0; p < pairs; p++, a += QC_MOMENTS_PAIR_SIZE, b += QC_MOMENTS_PAIR_SIZE)
        for (size_t j = 0; j < QC_MOMENTS_TILE; j++) sum[j] += (int32_t)a[0] * b[2 * j] + (int32_t)a[1] * b[2 * j + 1];
}
QC_SIMD(row, (int32_t * sum, const int16_t *a, const int16_t *b, size_t pairs), (sum, a, b, pairs))

#ifdef X86_TILES
QC_TARGET_AVX512 static void row_of_tile_avx512(int32_t *sum, const int16_t *a, const int16_t *b, size_t pairs)
{
    __m512i s = _mm512_setzero_si512();
    for (size_t p = 0; p < pairs; p++, a += QC_MOMENTS_PAIR_SIZE, b += QC_MOMENTS_PAIR_SIZE)
        s = _mm512_add_epi32(s, _mm512_madd_epi16(pair_512(a), _mm512_loadu_si512(b)));
    _mm512_storeu_si512(sum, s);
}
#endif

void qc_second_moments_row_of_tile(int64_t *to, const int16_t *a, size_t column, const int16_t *b, size_t pairs,
                                   int shift)
{
    int32_t sum[QC_MOMENTS_TILE] = {0};
#ifdef X86_TILES
    if (QC_HAS_AVX512())
        row_of_tile_avx512(sum, a + 2 * column, b, pairs);
    else
#endif
        row(sum, a + 2 * column, b, pairs);
    for (size_t j = 0; j < QC_MOMENTS_TILE; j++) to[j] += (int64_t)sum[j] * ((int64_t)1 << shift);
}

static QC_INLINE void qc_second_moments_sums_body(int64_t *sums, const int16_t *rows, size_t count, size_t stride,
                                                  int shift)
{
    enum { BLOCK = 64, TOGETHER = 8 }; /* rows added in 16 bits */
    _Static_assert(TOGETHER * QC_MOMENTS_LEVEL <= INT16_MAX, "the sum of some rows fits into 16 bits");
    for (size_t first = 0; first < stride; first += BLOCK) {
        int32_t sum[BLOCK] = {0};
        const size_t n = stride - first < BLOCK ? stride - first : BLOCK;
        const int16_t *x = rows + first;
        size_t r = 0;
        for (; r + TOGETHER <= count; r += TOGETHER, x += TOGETHER * stride)
            for (size_t i = 0; i < n; i++)
                sum[i] += (int16_t)(x[i] + x[stride + i] + x[2 * stride + i] + x[3 * stride + i] + x[4 * stride + i] +
                                    x[5 * stride + i] + x[6 * stride + i] + x[7 * stride + i]);
        for (; r < count; r++, x += stride)
            for (size_t i = 0; i < n; i++) sum[i] += x[i];
        for (size_t i = 0; i < n; i++) sums[first + i] += (int64_t)sum[i] * ((int64_t)1 << shift);
    }
}
QC_SIMD_EXPORTED(qc_second_moments_sums, (int64_t * to, const int16_t *rows, size_t count, size_t stride, int shift),
                 (to, rows, count, stride, shift))

static QC_INLINE void squares_body(int32_t *most, int32_t *restrict squares, const int16_t *rows, size_t count,
                                   size_t stride)
{
    enum { BLOCK = 64 };
    int32_t top[BLOCK] = {0};
    for (size_t first = 0; first < stride; first += BLOCK) {
        int32_t sum[BLOCK] = {0};
        const size_t n = stride - first < BLOCK ? stride - first : BLOCK;
        if (n == BLOCK)
            for (size_t r = 0; r < count; r++)
                for (size_t i = 0; i < BLOCK; i++)
                    sum[i] += (int32_t)rows[r * stride + first + i] * rows[r * stride + first + i];
        else
            for (size_t r = 0; r < count; r++)
                for (size_t i = 0; i < n; i++)
                    sum[i] += (int32_t)rows[r * stride + first + i] * rows[r * stride + first + i];
        memcpy(squares + first, sum, n * sizeof *sum);
        for (size_t i = 0; i < BLOCK; i++) top[i] = sum[i] > top[i] ? sum[i] : top[i];
    }
    *most = 0;
    for (size_t i = 0; i < BLOCK; i++) *most = top[i] > *most ? top[i] : *most;
}
QC_SIMD(squares, (int32_t * most, int32_t *to, const int16_t *rows, size_t count, size_t stride),
        (most, to, rows, count, stride))

int32_t qc_second_moments_squares(int32_t *to, const int16_t *rows, size_t count, size_t stride)
{
    int32_t most;
    squares(&most, to, rows, count, stride);
    return most;
}

/* Adds n sums from entry `at` on. */
static QC_INLINE void add_some(const struct qc_second_moments_sink *to, size_t at, const int32_t *sum, size_t n)
{
    if (to->narrow)
        add_narrow(to->narrow + at, sum, n, to->shift);
    else
        add_wide(to->wide + at, sum, n, to->shift);
}

static QC_INLINE void lanes_body(const struct qc_second_moments_sink *to, const int16_t *rows, size_t count,
                                 size_t columns, size_t lanes, int32_t *restrict sum)
{
    for (size_t k = 0, at = 0; k < columns; k++)
        for (size_t j = 0; j <= k; j++, at += lanes) {
            memset(sum, 0, lanes * sizeof *sum);
            for (size_t r = 0; r < count; r++) {
                const int16_t *a = rows + (r * columns + j) * lanes, *b = rows + (r * columns + k) * lanes;
                for (size_t l = 0; l < lanes; l++) sum[l] += (int32_t)a[l] * (int32_t)b[l];
            }
            add_some(to, at, sum, lanes);
        }
}
QC_SIMD(lanes,
        (const struct qc_second_moments_sink *to, const int16_t *rows, size_t count, size_t columns, size_t width,
         int32_t *sum),
        (to, rows, count, columns, width, sum))

#ifdef X86_TILES
enum { SIDE_BY_SIDE = 4 }; /* independent sums, to hide latency */

/* Adds to entry at + i * step the sum over pairs of a[i] * b, lane by lane, for n <= SIDE_BY_SIDE columns a and `lanes`
   of the tile's lanes. */
QC_TARGET_AVX512 static void lanes_of_tile(const struct qc_second_moments_sink *to, size_t at, size_t step,
                                           const int16_t *const a[SIDE_BY_SIDE], size_t n, const int16_t *b,
                                           size_t pairs, size_t lanes)
{
    __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
    for (size_t p = 0; p < pairs * QC_MOMENTS_PAIR_SIZE; p += QC_MOMENTS_PAIR_SIZE) {
        const __m512i y = _mm512_loadu_si512(b + p);
        s0 = _mm512_add_epi32(s0, _mm512_madd_epi16(y, _mm512_loadu_si512(a[0] + p)));
        s1 = _mm512_add_epi32(s1, _mm512_madd_epi16(y, _mm512_loadu_si512(a[1] + p)));
        s2 = _mm512_add_epi32(s2, _mm512_madd_epi16(y, _mm512_loadu_si512(a[2] + p)));
        s3 = _mm512_add_epi32(s3, _mm512_madd_epi16(y, _mm512_loadu_si512(a[3] + p)));
    }
    const __m512i sums[SIDE_BY_SIDE] = {s0, s1, s2, s3};
    for (size_t i = 0; i < n; i++, at += step) {
        int32_t sum[QC_MOMENTS_TILE];
        _mm512_storeu_si512(sum, sums[i]);
        if (lanes == QC_MOMENTS_TILE)
            add_some(to, at, sum, QC_MOMENTS_TILE);
        else
            add_some(to, at, sum, lanes);
    }
}

/* Panels interleave two rows of a lane, so that one instruction multiplies and adds both. */
static void lanes_in_pairs(const struct qc_second_moments_sink *to, const int16_t *rows, size_t count, size_t columns,
                           size_t width, int16_t *panels)
{
    const size_t pairs = (count + 1) / 2, tiles = (width + QC_MOMENTS_TILE - 1) / QC_MOMENTS_TILE,
                 panel = pairs * QC_MOMENTS_PAIR_SIZE;
    for (size_t k = 0; k < columns; k++)
        qc_second_moments_pack(panels + k * tiles * panel, rows, count, columns * width, k * width, width);
    for (size_t k = 0; k < columns; k++)
        for (size_t j = 0; j <= k; j += SIDE_BY_SIDE) {
            const size_t n = k + 1 - j < SIDE_BY_SIDE ? k + 1 - j : SIDE_BY_SIDE;
            for (size_t t = 0; t < tiles; t++) {
                const int16_t *a[SIDE_BY_SIDE];
                const size_t left = width - t * QC_MOMENTS_TILE;
                for (size_t i = 0; i < SIDE_BY_SIDE; i++) a[i] = panels + ((i < n ? j + i : j) * tiles + t) * panel;
                lanes_of_tile(to, (k * (k + 1) / 2 + j) * width + t * QC_MOMENTS_TILE, width, a, n,
                              panels + (k * tiles + t) * panel, pairs, left < QC_MOMENTS_TILE ? left : QC_MOMENTS_TILE);
            }
        }
}
#endif

void qc_second_moments_lanes(const struct qc_second_moments_sink *to, const int16_t *rows, size_t count, size_t columns,
                             size_t width, int32_t *scratch, int16_t *panels)
{
#ifdef X86_TILES
    if (QC_HAS_AVX512()) {
        lanes_in_pairs(to, rows, count, columns, width, panels);
        return;
    }
#endif
    lanes(to, rows, count, columns, width, scratch);
}
