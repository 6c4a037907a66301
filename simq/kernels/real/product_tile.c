// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/real/product_tile.h"

#include "base/simd.h"

enum { BLOCK = QC_PRODUCT_BLOCK };

/* ------------------------------------------------- plain C */

/* As the vector instructions: NaN results propagate. */
static QC_INLINE float finished_product_tile(float sum, float bias, float there, const struct qc_product_tail *tail)
{
    float v = sum + bias;
    v = tail->sum ? v + there : v;
    v = tail->lo > v ? tail->lo : v;
    return tail->hi < v ? tail->hi : v;
}

static void tile_plain(const struct qc_product_tile *t, int rows, int blocks)
{
    const size_t n = (size_t)blocks * BLOCK, columns = n - BLOCK + (size_t)t->last;
    for (int m = 0; m < rows; m++) {
        float acc[QC_PRODUCT_BLOCKS * BLOCK] = {0}, *y = t->y + m * t->y_step;
        const float *w = t->w;
        for (size_t r = 0; r < t->runs; r++) {
            const float *a = t->a + m * t->step + t->run[r];
            for (size_t k = 0; k < t->length; k++, w += n)
                for (size_t c = 0; c < n; c++) acc[c] = qc_fused(a[k], w[c], acc[c]);
        }
        for (size_t c = 0; t->sums && c < n; c++) acc[c] = t->sums[(size_t)m * n + c] + acc[c];
        for (size_t c = 0; c < columns; c++)
            y[c] = t->tail ? finished_product_tile(acc[c], t->bias[c], y[c], t->tail) : acc[c];
    }
}

/* Sets the columns of result i's window that lie in the data. */
static QC_INLINE void columns_of(size_t *from, size_t *to, const struct qc_product_depthwise *d, ptrdiff_t i)
{
    const ptrdiff_t x = d->start + i * d->stride;
    *from = 0;
    *to = d->columns;
    while (*from < *to && x + (ptrdiff_t)*from * d->delta < 0) ++*from;
    while (*to > *from && x + (ptrdiff_t)(*to - 1) * d->delta >= d->size) --*to;
}

static void depthwise_plain(const struct qc_product_depthwise *d)
{
    for (size_t c = 0; c < d->channels; c += BLOCK) {
        const size_t n = d->channels - c < BLOCK ? d->channels - c : BLOCK;
        for (ptrdiff_t i = 0; i < d->count; i++) {
            float acc[BLOCK] = {0}, *y = d->y + i * d->y_step + c;
            size_t from, to;
            columns_of(&from, &to, d, i);
            for (size_t l = 0; l < d->lines; l++)
                for (size_t t = from; t < to; t++) {
                    const float *x = d->line[l] + (d->start + i * d->stride + (ptrdiff_t)t * d->delta) * d->step + c,
                                *w = d->w[l] + t * d->width + c;
                    for (size_t k = 0; k < n; k++) acc[k] = qc_fused(x[k], w[k], acc[k]);
                }
            for (size_t k = 0; k < n; k++) y[k] = finished_product_tile(acc[k], d->bias[c + k], y[k], d->tail);
        }
    }
}

/* ------------------------------------------------- x86-64 */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

/* Loads the first n numbers of a vector, 0 to all. */
QC_TARGET_AVX512 static QC_INLINE __m512 load_part512(const float *p, int n)
{
    return _mm512_maskz_loadu_ps((__mmask16)((1U << n) - 1U), p);
}

QC_TARGET_AVX512 static QC_INLINE void store_part512(float *p, int n, __m512 v)
{
    _mm512_mask_storeu_ps(p, (__mmask16)((1U << n) - 1U), v);
}

QC_TARGET_AVX2 static QC_INLINE __m256i mask256(int n)
{
    static const int32_t ones[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
    return _mm256_loadu_si256((const void *)(ones + 8 - n));
}

QC_TARGET_AVX2 static QC_INLINE __m256 load_part256(const float *p, int n)
{
    return _mm256_maskload_ps(p, mask256(n));
}

QC_TARGET_AVX2 static QC_INLINE void store_part256(float *p, int n, __m256 v)
{
    _mm256_maskstore_ps(p, mask256(n), v);
}

/* Returns how many of the `last` columns of a block are in its vector k. */
static QC_INLINE int columns_in(int last, int k, int lanes)
{
    const int n = last - k * lanes;
    return n < 0 ? 0 : n < lanes ? n : lanes;
}

/* Row m, addressed from pointers three rows apart, so that they and the step fit in registers. */
#define QC_ROW(m) (p[(m) / 3] + (m) % 3 * step)

#define QC_FINISH(P, v, b, y, n, part, all)                                                                            \
    do {                                                                                                               \
        v = P##add_ps(v, b);                                                                                           \
        if (tail->sum) v = P##add_ps(v, (part) ? load_part##all(y, n) : P##loadu_ps(y));                               \
        v = P##min_ps(hi, P##max_ps(lo, v));                                                                           \
    } while (0)

/* TYPE is a vector of LANES numbers; VECTORS of them are a block; P is the prefix of its instructions. */
#define QC_TILE_BODY(name, target, TYPE, LANES, VECTORS, P, bits)                                                      \
    target QC_NOT_CHECKED static QC_INLINE void name##_body(const struct qc_product_tile *t, const int rows,           \
                                                            const int blocks)                                          \
    {                                                                                                                  \
        TYPE acc[QC_PRODUCT_ROWS][QC_PRODUCT_BLOCKS * (VECTORS)], b[QC_PRODUCT_BLOCKS * (VECTORS)];                    \
        const int n = blocks * (VECTORS), width = blocks * BLOCK;                                                      \
        const ptrdiff_t step = t->step;                                                                                \
        const float *w = t->w, *p[QC_PRODUCT_ROWS / 3 + 1];                                                            \
        QC_UNROLL for (int m = 0; m < rows; m++) QC_UNROLL for (int k = 0; k < n; k++) acc[m][k] = P##setzero_ps();    \
        for (size_t r = 0; r < t->runs; r++) {                                                                         \
            QC_UNROLL for (int m = 0; m < rows; m += 3) p[m / 3] = t->a + t->run[r] + m * step;                        \
            for (size_t q = t->length; q > 0; q--, w += width) {                                                       \
                QC_UNROLL for (int k = 0; k < n; k++) b[k] = P##loadu_ps(w + k * (LANES));                             \
                QC_UNROLL for (int m = 0; m < rows; m++)                                                               \
                {                                                                                                      \
                    const TYPE a = P##set1_ps(*QC_ROW(m));                                                             \
                    QC_UNROLL for (int k = 0; k < n; k++) acc[m][k] = P##fmadd_ps(a, b[k], acc[m][k]);                 \
                }                                                                                                      \
                QC_UNROLL for (int m = 0; m < rows; m += 3) p[m / 3]++;                                                \
            }                                                                                                          \
        }                                                                                                              \
        if (t->sums) {                                                                                                 \
            QC_UNROLL for (int m = 0; m < rows; m++) QC_UNROLL for (int k = 0; k < n; k++) acc[m][k] =                 \
                P##add_ps(P##loadu_ps(t->sums + m * width + k * (LANES)), acc[m][k]);                                  \
        }                                                                                                              \
        const struct qc_product_tail *tail = t->tail;                                                                  \
        if (!tail) {                                                                                                   \
            QC_UNROLL for (int m = 0; m < rows; m++) QC_UNROLL for (int k = 0; k < n; k++)                             \
                P##storeu_ps(t->y + m * t->y_step + k * (LANES), acc[m][k]);                                           \
            return;                                                                                                    \
        }                                                                                                              \
        const TYPE lo = P##set1_ps(tail->lo), hi = P##set1_ps(tail->hi);                                               \
        QC_UNROLL for (int k = 0; k < n; k++)                                                                          \
        {                                                                                                              \
            const TYPE bias = P##loadu_ps(t->bias + k * (LANES));                                                      \
            const int some = k < n - (VECTORS) ? (LANES) : columns_in(t->last, k - (n - (VECTORS)), LANES);            \
            QC_UNROLL for (int m = 0; m < rows; m++)                                                                   \
            {                                                                                                          \
                float *y = t->y + m * t->y_step + k * (LANES);                                                         \
                if (some == (LANES)) {                                                                                 \
                    QC_FINISH(P, acc[m][k], bias, y, some, false, bits);                                               \
                    P##storeu_ps(y, acc[m][k]);                                                                        \
                } else {                                                                                               \
                    QC_FINISH(P, acc[m][k], bias, y, some, true, bits);                                                \
                    store_part##bits(y, some, acc[m][k]);                                                              \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }
#define QC_TILE_ONE(name, target, m, n)                                                                                \
    target static void name##_##n##_##m(const struct qc_product_tile *t)                                               \
    {                                                                                                                  \
        name##_body(t, m, n);                                                                                          \
    }

QC_TILE_BODY(tile_avx512, QC_TARGET_AVX512, __m512, 16, 1, _mm512_, 512)
QC_TILE_BODY(tile_avx2, QC_TARGET_AVX2, __m256, 8, 2, _mm256_, 256)

/* Numbers of rows whose sums fit in the registers: 32 registers of 16 numbers, 16 of 8. */
#define QC_ROWS_512_1(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14) X(15) X(16)
#define QC_ROWS_512_2(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12) X(13) X(14)
#define QC_ROWS_512_3(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9)
#define QC_ROWS_256(X) X(1) X(2) X(3) X(4) X(5) X(6)

#define QC_X(m) QC_TILE_ONE(tile_avx512, QC_TARGET_AVX512, m, 1)
QC_ROWS_512_1(QC_X)
#undef QC_X
#define QC_X(m) QC_TILE_ONE(tile_avx512, QC_TARGET_AVX512, m, 2)
QC_ROWS_512_2(QC_X)
#undef QC_X
#define QC_X(m) QC_TILE_ONE(tile_avx512, QC_TARGET_AVX512, m, 3)
QC_ROWS_512_3(QC_X)
#undef QC_X
#define QC_X(m) QC_TILE_ONE(tile_avx2, QC_TARGET_AVX2, m, 1)
QC_ROWS_256(QC_X)
#undef QC_X

typedef void rows_fn(const struct qc_product_tile *t);

static void tile_avx512(const struct qc_product_tile *t, int rows, int blocks)
{
    static rows_fn *const all[QC_PRODUCT_BLOCKS][QC_PRODUCT_ROWS] = {
#define QC_X(m) tile_avx512_1_##m,
        {QC_ROWS_512_1(QC_X)},
#undef QC_X
#define QC_X(m) tile_avx512_2_##m,
        {QC_ROWS_512_2(QC_X)},
#undef QC_X
#define QC_X(m) tile_avx512_3_##m,
        {QC_ROWS_512_3(QC_X)},
#undef QC_X
    };
    all[blocks - 1][rows - 1](t);
}

static void tile_avx2(const struct qc_product_tile *t, int rows, int blocks)
{
    static rows_fn *const all[] = {
#define QC_X(m) tile_avx2_1_##m,
        QC_ROWS_256(QC_X)
#undef QC_X
    };
    all[rows - 1](t);
}

/* ------------------------------------------------- depthwise on x86-64 */

enum { TOGETHER = 8 }; /* results of a line held in registers */

/* Separate functions, so that each has all registers. They stop if fewer than `count` results are left. */
#define QC_DEPTHWISE_ONE(name, target, width, stride, count)                                                           \
    target static __attribute__((noinline))                                                                            \
    ptrdiff_t name##_##width##_##stride##_##count(const struct qc_product_depthwise *d, ptrdiff_t i, ptrdiff_t end,    \
                                                  size_t from, size_t to)                                              \
    {                                                                                                                  \
        for (; i + count <= end; i += count) name##_across(d, i, count, width, stride, from, to);                      \
        return i;                                                                                                      \
    }
#define QC_DEPTHWISE_SOME(name, target, width, stride)                                                                 \
    QC_DEPTHWISE_ONE(name, target, width, stride, 1)                                                                   \
    QC_DEPTHWISE_ONE(name, target, width, stride, 2)                                                                   \
    QC_DEPTHWISE_ONE(name, target, width, stride, 4)                                                                   \
    QC_DEPTHWISE_ONE(name, target, width, stride, 5)                                                                   \
    QC_DEPTHWISE_ONE(name, target, width, stride, 8)                                                                   \
    static void name##_##width##_##stride(const struct qc_product_depthwise *d, ptrdiff_t i, ptrdiff_t end)            \
    {                                                                                                                  \
        const size_t all = d->columns;                                                                                 \
        i = name##_##width##_##stride##_8(d, i, end, 0, all);                                                          \
        if (i + 5 == end) i = name##_##width##_##stride##_5(d, i, end, 0, all);                                        \
        i = name##_##width##_##stride##_4(d, i, end, 0, all);                                                          \
        i = name##_##width##_##stride##_2(d, i, end, 0, all);                                                          \
        name##_##width##_##stride##_1(d, i, end, 0, all);                                                              \
    }

/* Results i to i + count - 1, from channel c on; `some` channels if the vector is not full. Sums the window columns
   `from` to before `to`. width 0: any window; else a window of `width` adjacent columns, whose shared data is read
   once. */
#define QC_DEPTHWISE_BODY(name, target, TYPE, LANES, P, bits)                                                          \
    target QC_NOT_CHECKED static QC_INLINE void name##_vector(const struct qc_product_depthwise *d,                    \
                                                              const float *const *line, const float *const *weights,   \
                                                              size_t lines, ptrdiff_t at, float *y, ptrdiff_t y_step,  \
                                                              ptrdiff_t step, ptrdiff_t next, const int count,         \
                                                              size_t c, const bool part, int some, const int width,    \
                                                              const int stride, ptrdiff_t from, ptrdiff_t to, TYPE lo, \
                                                              TYPE hi, const bool sum)                                 \
    {                                                                                                                  \
        TYPE acc[TOGETHER], w[5];                                                                                      \
        QC_UNROLL for (int m = 0; m < count; m++) acc[m] = P##setzero_ps();                                            \
        for (size_t l = 0; l < lines; l++) {                                                                           \
            const float *x = line[l] + at + c, *wl = weights[l] + c;                                                   \
            if (width) {                                                                                               \
                QC_UNROLL for (int t = 0; t < width; t++) w[t] = P##loadu_ps(wl + t * next);                           \
                QC_UNROLL for (int k = 0; k < (count - 1) * stride + width; k++)                                       \
                {                                                                                                      \
                    const TYPE v = part ? load_part##bits(x, some) : P##loadu_ps(x);                                   \
                    QC_UNROLL for (int t = 0; t < width;                                                               \
                                   t++) if (k >= t && (k - t) % stride == 0 && (k - t) / stride < count)               \
                        acc[(k - t) / stride] = P##fmadd_ps(v, w[t], acc[(k - t) / stride]);                           \
                    x += step;                                                                                         \
                }                                                                                                      \
                continue;                                                                                              \
            }                                                                                                          \
            for (ptrdiff_t t = from; t < to; t++) {                                                                    \
                const float *first = x + t * d->delta * step;                                                          \
                w[0] = P##loadu_ps(wl + t * next);                                                                     \
                QC_UNROLL for (int m = 0; m < count; m++)                                                              \
                {                                                                                                      \
                    acc[m] = P##fmadd_ps(part ? load_part##bits(first, some) : P##loadu_ps(first), w[0], acc[m]);      \
                    first += d->stride * step;                                                                         \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
        const TYPE bias = P##loadu_ps(d->bias + c);                                                                    \
        y += c;                                                                                                        \
        QC_UNROLL for (int m = 0; m < count; m++)                                                                      \
        {                                                                                                              \
            TYPE v = P##add_ps(acc[m], bias);                                                                          \
            if (sum) v = P##add_ps(v, part ? load_part##bits(y, some) : P##loadu_ps(y));                               \
            v = P##min_ps(hi, P##max_ps(lo, v));                                                                       \
            if (part)                                                                                                  \
                store_part##bits(y, some, v);                                                                          \
            else                                                                                                       \
                P##storeu_ps(y, v);                                                                                    \
            y += y_step;                                                                                               \
        }                                                                                                              \
    }                                                                                                                  \
    target QC_NOT_CHECKED static QC_INLINE void name##_across(const struct qc_product_depthwise *d, ptrdiff_t i,       \
                                                              const int count, const int width, const int stride,      \
                                                              size_t from, size_t to)                                  \
    {                                                                                                                  \
        const TYPE lo = P##set1_ps(d->tail->lo), hi = P##set1_ps(d->tail->hi);                                         \
        const ptrdiff_t step = d->step, at = (d->start + i * d->stride) * step, y_step = d->y_step,                    \
                        next = (ptrdiff_t)d->width, first = (ptrdiff_t)from, last = (ptrdiff_t)to;                     \
        const float *const *const line = d->line, *const *const w = d->w;                                              \
        const size_t lines = d->lines, channels = d->channels;                                                         \
        float *const y = d->y + i * y_step;                                                                            \
        const bool sum = d->tail->sum;                                                                                 \
        size_t c = 0;                                                                                                  \
        for (; c + (LANES) <= channels; c += (LANES))                                                                  \
            name##_vector(d, line, w, lines, at, y, y_step, step, next, count, c, false, (LANES), width, stride,       \
                          first, last, lo, hi, sum);                                                                   \
        if (c < channels)                                                                                              \
            name##_vector(d, line, w, lines, at, y, y_step, step, next, count, c, true, (int)(channels - c), width,    \
                          stride, first, last, lo, hi, sum);                                                           \
    }                                                                                                                  \
    QC_DEPTHWISE_SOME(name, target, 0, 1)                                                                              \
    QC_DEPTHWISE_SOME(name, target, 3, 1)                                                                              \
    QC_DEPTHWISE_SOME(name, target, 3, 2)                                                                              \
    QC_DEPTHWISE_SOME(name, target, 5, 1)                                                                              \
    target static void name(const struct qc_product_depthwise *d)                                                      \
    {                                                                                                                  \
        const bool close = d->delta == 1;                                                                              \
        ptrdiff_t i = 0, last = d->count;                                                                              \
        size_t from, to;                                                                                               \
        for (; i < last; i++) {                                                                                        \
            columns_of(&from, &to, d, i);                                                                              \
            if (from == 0 && to == d->columns) break;                                                                  \
            name##_0_1_1(d, i, i + 1, from, to);                                                                       \
        }                                                                                                              \
        for (; last > i; last--) {                                                                                     \
            columns_of(&from, &to, d, last - 1);                                                                       \
            if (from == 0 && to == d->columns) break;                                                                  \
        }                                                                                                              \
        if (close && d->columns == 3 && d->stride == 1)                                                                \
            name##_3_1(d, i, last);                                                                                    \
        else if (close && d->columns == 3 && d->stride == 2)                                                           \
            name##_3_2(d, i, last);                                                                                    \
        else if (close && d->columns == 5 && d->stride == 1)                                                           \
            name##_5_1(d, i, last);                                                                                    \
        else                                                                                                           \
            name##_0_1(d, i, last);                                                                                    \
        for (i = last; i < d->count; i++) {                                                                            \
            columns_of(&from, &to, d, i);                                                                              \
            name##_0_1_1(d, i, i + 1, from, to);                                                                       \
        }                                                                                                              \
    }

QC_DEPTHWISE_BODY(depthwise_avx512, QC_TARGET_AVX512, __m512, 16, _mm512_, 512)
QC_DEPTHWISE_BODY(depthwise_avx2, QC_TARGET_AVX2, __m256, 8, _mm256_, 256)
#endif

struct qc_product_tiles qc_product_tiles_of(enum qc_isa isa)
{
    struct qc_product_tiles s = {.tile = tile_plain,
                                 .depthwise = depthwise_plain,
                                 .blocks = QC_PRODUCT_BLOCKS,
                                 .rows = {0, 4, 4, 4}};
#if defined(__x86_64__) && defined(__GNUC__)
    if (isa >= QC_ISA_AVX512)
        s = (struct qc_product_tiles){.tile = tile_avx512,
                                      .depthwise = depthwise_avx512,
                                      .blocks = QC_PRODUCT_BLOCKS,
                                      .rows = {0, 16, 14, 9}};
    else if (isa >= QC_ISA_AVX2)
        s = (struct qc_product_tiles){.tile = tile_avx2, .depthwise = depthwise_avx2, .blocks = 1, .rows = {0, 6}};
#else
#endif
    return s;
}
