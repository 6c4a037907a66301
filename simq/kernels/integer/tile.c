// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/tile.h"

#include <string.h>

#include "base/simd.h"
#include "simq/kernels/integer/depthwise_vnni.h"
#include "simq/core/unroll.h"

/* ------------------------------------------------- plain C */

static QC_INLINE int32_t dot_narrow(int32_t acc, const uint8_t *a, const uint8_t *w)
{
    for (int i = 0; i < 4; i++) acc += (int32_t)a[i] * (int8_t)w[i];
    return acc;
}

/* Modulo 2^32. */
static QC_INLINE int32_t dot_wide(int32_t acc, const uint8_t *a, const uint8_t *w)
{
    int16_t x[2], y[2];
    memcpy(x, a, 4);
    memcpy(y, w, 4);
    return (int32_t)((uint32_t)acc + (uint32_t)(x[0] * y[0]) + (uint32_t)(x[1] * y[1]));
}

#define QC_PLAIN(name, dot)                                                                                            \
    static void name(const struct qc_tile *t, int rows, int blocks)                                                    \
    {                                                                                                                  \
        const size_t n = (size_t)blocks * QC_TILE_CHANNELS;                                                            \
        for (int m = 0; m < rows; m++) {                                                                               \
            int32_t *acc = t->acc + (size_t)m * n;                                                                     \
            const uint8_t *w = t->w;                                                                                   \
            memcpy(acc, t->bias, n * sizeof *acc);                                                                     \
            for (size_t r = 0; r < t->runs; r++) {                                                                     \
                const uint8_t *a = t->a + m * t->step + t->run[r];                                                     \
                for (size_t q = 0; q < t->quads; q++, a += 4, w += 4 * n)                                              \
                    for (size_t c = 0; c < n; c++) acc[c] = dot(acc[c], a, w + 4 * c);                                 \
            }                                                                                                          \
        }                                                                                                              \
    }
QC_PLAIN(narrow_plain, dot_narrow)
QC_PLAIN(wide_plain, dot_wide)

#define QC_DEPTHWISE(name, T)                                                                                          \
    static QC_INLINE void name##_body(const struct qc_depthwise *d)                                                    \
    {                                                                                                                  \
        const size_t n = d->channels;                                                                                  \
        int32_t *restrict acc = d->acc;                                                                                \
        const int16_t *w = d->w;                                                                                       \
        memcpy(acc, d->bias, n * sizeof *acc);                                                                         \
        for (size_t t = 0; t < d->taps; t++, w += n) {                                                                 \
            const T *x = (const T *)(const void *)(d->a + d->tap[t]);                                                  \
            for (size_t c = 0; c < n; c++) acc[c] = (int32_t)((uint32_t)acc[c] + (uint32_t)((int32_t)x[c] * w[c]));    \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD(name, (const struct qc_depthwise *d), (d))
QC_DEPTHWISE(depthwise_narrow, uint8_t)
QC_DEPTHWISE(depthwise_wide, int16_t)

enum { BLOCK = QC_DEPTHWISE_BLOCK, GROUP = QC_DEPTHWISE_LINES + 1 };

size_t qc_depthwise_bytes(size_t taps, size_t channels, bool interleaved)
{
    if (!interleaved) return taps * channels * sizeof(int16_t);
    return (taps + GROUP - 1) / GROUP * GROUP * ((channels + BLOCK - 1) / BLOCK * BLOCK);
}

/* What unpacking bytes, then words, of four vectors of 64 gives: vector k holds in lane l the channels 16 l + 4 k to 16
   l + 4 k + 3, each with its four taps. */
static void interleave(int8_t *to, const int32_t *w, size_t taps, size_t channels)
{
    const size_t groups = (taps + GROUP - 1) / GROUP;
    for (size_t b = 0; b < channels; b += BLOCK)
        for (size_t g = 0; g < groups; g++)
            for (size_t k = 0; k < 4; k++)
                for (size_t i = 0; i < 16; i++)
                    for (size_t t = 0; t < GROUP; t++) {
                        const size_t c = b + i / 4 * 16 + 4 * k + i % 4, tap = g * GROUP + t;
                        *to++ = (int8_t)(c < channels && tap < taps ? w[tap * channels + c] : 0);
                    }
}

void qc_depthwise_pack(void *to, const int32_t *w, size_t taps, size_t channels, bool interleaved)
{
    int16_t *wide = to;
    if (interleaved)
        interleave(to, w, taps, channels);
    else
        for (size_t i = 0; i < taps * channels; i++) wide[i] = (int16_t)w[i];
}

/* ------------------------------------------------- x86-64 */

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>

#define QC_TARGET_AVX_VNNI __attribute__((target("avx2,fma,avxvnni")))

static QC_INLINE int32_t quad(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Row m from three pointers, so that they and the step fit in registers. */
#define QC_ROW(m) ((m) < 3 ? p0 + (m)*step : (m) < 6 ? p1 + ((m)-3) * step : p2 + ((m)-6) * step)

/* `blocks` blocks of one tile that has `all` of them; TYPE is a vector of LANES sums, VECTORS of them are a block. */
#define QC_TILE_BODY(name, target, TYPE, LANES, VECTORS, load, store, set1, dot)                                       \
    target static QC_INLINE void name##_body(const struct qc_tile *t, const int rows, const int blocks, const int all) \
    {                                                                                                                  \
        TYPE acc[QC_TILE_ROWS][QC_TILE_BLOCKS * (VECTORS)], b[QC_TILE_BLOCKS * (VECTORS)];                             \
        const int n = blocks * (VECTORS);                                                                              \
        const ptrdiff_t step = t->step, width = (ptrdiff_t)all * QC_TILE_CHANNELS;                                     \
        const uint8_t *w = t->w;                                                                                       \
        QC_UNROLL for (int m = 0; m < rows; m++) QC_UNROLL for (int k = 0; k < n; k++) acc[m][k] =                     \
            load((const void *)(t->bias + k * (LANES)));                                                               \
        for (size_t r = 0; r < t->runs; r++) {                                                                         \
            const uint8_t *p0 = t->a + t->run[r], *p1 = p0 + 3 * step, *p2 = p0 + 6 * step;                            \
            for (size_t q = 0; q < t->quads; q++) {                                                                    \
                QC_UNROLL for (int k = 0; k < n; k++) b[k] = load((const void *)(w + 4 * k * (LANES)));                \
                QC_UNROLL for (int m = 0; m < rows; m++)                                                               \
                {                                                                                                      \
                    const TYPE a = set1(quad(QC_ROW(m)));                                                              \
                    QC_UNROLL for (int k = 0; k < n; k++) acc[m][k] = dot(acc[m][k], a, b[k]);                         \
                }                                                                                                      \
                p0 += 4;                                                                                               \
                p1 += 4;                                                                                               \
                p2 += 4;                                                                                               \
                w += 4 * width;                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
        QC_UNROLL for (int m = 0; m < rows; m++) QC_UNROLL for (int k = 0; k < n; k++)                                 \
            store((void *)(t->acc + m * width + k * (LANES)), acc[m][k]);                                              \
    }
#define QC_TILE_ONE(name, target, m, n)                                                                                \
    target static void name##_##m##_##n(const struct qc_tile *t)                                                       \
    {                                                                                                                  \
        name##_body(t, m, n, n);                                                                                       \
    }
#define QC_TILE_ROW(name, target, m)                                                                                   \
    QC_TILE_ONE(name, target, m, 1)                                                                                    \
    QC_TILE_ONE(name, target, m, 2)                                                                                    \
    QC_TILE_ONE(name, target, m, 3)
#define QC_TILE_ENTRIES(name, m)                                                                                       \
    {                                                                                                                  \
        name##_##m##_1, name##_##m##_2, name##_##m##_3                                                                 \
    }
#define QC_TILE_ALL(name, target)                                                                                      \
    QC_TILE_ROW(name, target, 1)                                                                                       \
    QC_TILE_ROW(name, target, 2)                                                                                       \
    QC_TILE_ROW(name, target, 4)                                                                                       \
    QC_TILE_ROW(name, target, 8)                                                                                       \
    static void name(const struct qc_tile *t, int rows, int blocks)                                                    \
    {                                                                                                                  \
        static void (*const all[4][QC_TILE_BLOCKS])(                                                                   \
            const struct qc_tile *) = {QC_TILE_ENTRIES(name, 1), QC_TILE_ENTRIES(name, 2), QC_TILE_ENTRIES(name, 4),   \
                                       QC_TILE_ENTRIES(name, 8)};                                                      \
        all[rows == 8 ? 3 : rows == 4 ? 2 : rows == 2 ? 1 : 0][blocks - 1](t);                                         \
    }

/* 16 registers of 256 bits: four rows of one block at a time. */
#define QC_TILE_SMALL(name, target)                                                                                    \
    target static void name(const struct qc_tile *t, int rows, int blocks)                                             \
    {                                                                                                                  \
        for (int m = 0; m < rows; m += 4)                                                                              \
            for (int n = 0; n < blocks; n++) {                                                                         \
                struct qc_tile part = *t;                                                                              \
                part.a += m * t->step;                                                                                 \
                part.w += (ptrdiff_t)4 * n * QC_TILE_CHANNELS;                                                         \
                part.bias += n * QC_TILE_CHANNELS;                                                                     \
                part.acc += (m * blocks + n) * QC_TILE_CHANNELS;                                                       \
                if (rows >= 4)                                                                                         \
                    name##_body(&part, 4, 1, blocks);                                                                  \
                else if (rows == 2)                                                                                    \
                    name##_body(&part, 2, 1, blocks);                                                                  \
                else                                                                                                   \
                    name##_body(&part, 1, 1, blocks);                                                                  \
            }                                                                                                          \
    }

#define QC_MADD512(acc, a, b) _mm512_add_epi32(acc, _mm512_madd_epi16(a, b))
#define QC_MADD256(acc, a, b) _mm256_add_epi32(acc, _mm256_madd_epi16(a, b))

QC_TILE_BODY(narrow_vnni, QC_TARGET_VNNI, __m512i, 16, 1, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32,
             _mm512_dpbusd_epi32)
QC_TILE_ALL(narrow_vnni, QC_TARGET_VNNI)
QC_TILE_BODY(wide_vnni, QC_TARGET_VNNI, __m512i, 16, 1, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32,
             _mm512_dpwssd_epi32)
QC_TILE_ALL(wide_vnni, QC_TARGET_VNNI)
QC_TILE_BODY(wide_avx512, QC_TARGET_AVX512, __m512i, 16, 1, _mm512_loadu_si512, _mm512_storeu_si512, _mm512_set1_epi32,
             QC_MADD512)
QC_TILE_ALL(wide_avx512, QC_TARGET_AVX512)
QC_TILE_BODY(narrow_avx_vnni, QC_TARGET_AVX_VNNI, __m256i, 8, 2, _mm256_loadu_si256, _mm256_storeu_si256,
             _mm256_set1_epi32, _mm256_dpbusd_avx_epi32)
QC_TILE_SMALL(narrow_avx_vnni, QC_TARGET_AVX_VNNI)
QC_TILE_BODY(wide_avx2, QC_TARGET_AVX2, __m256i, 8, 2, _mm256_loadu_si256, _mm256_storeu_si256, _mm256_set1_epi32,
             QC_MADD256)
QC_TILE_SMALL(wide_avx2, QC_TARGET_AVX2)
#endif

struct qc_tile_set qc_tile_set_of(enum qc_isa isa)
{
    struct qc_tile_set s = {.narrow = narrow_plain,
                            .wide = wide_plain,
                            .narrow_depthwise = depthwise_narrow,
                            .wide_depthwise = depthwise_wide};
#if defined(__x86_64__) && defined(__GNUC__)
    switch (isa) {
    case QC_ISA_AVX2:
        s.narrow = NULL;
        s.wide = wide_avx2;
        break;
    case QC_ISA_AVX_VNNI:
        s.narrow = narrow_avx_vnni;
        s.wide = wide_avx2;
        break;
    case QC_ISA_AVX512:
        s.narrow = NULL;
        s.wide = wide_avx512;
        break;
    case QC_ISA_AMX:
    case QC_ISA_AVX512_VNNI:
        s.amx = isa == QC_ISA_AMX;
        s.narrow = narrow_vnni;
        s.wide = wide_vnni;
        s.narrow_depthwise = qc_depthwise_vnni;
        s.depthwise_pair = qc_depthwise_pair_vnni;
        s.depthwise_line = qc_depthwise_line_vnni;
        s.interleaved = true;
        break;
    case QC_ISA_PLAIN:
    case QC_ISA_BEST:
    case QC_ISA_COUNT: break;
    }
#else
    (void)isa;
#endif
    return s;
}
