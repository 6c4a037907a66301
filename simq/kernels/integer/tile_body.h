// SPDX-License-Identifier: Apache-2.0
/* Inside simq/kernels/integer/: the loops of simq/kernels/integer/tile.h for vectors of any width, instantiated for
   each instruction set. */
#pragma once

#include <string.h>

#include "base/simd.h"
#include "simq/kernels/integer/tile.h"

static QC_INLINE int32_t quad(const uint8_t *p)
{
    int32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Row m, addressed from pointers three rows apart, so that they and the step fit in registers. */
#define QC_ROW(m) (p[(m) / 3] + (m) % 3 * step)

/* n vectors of a tile of `all` blocks. TYPE is a vector of LANES sums; VECTORS of them are a block. */
#define QC_TILE_BODY(name, target, TYPE, LANES, VECTORS, load, store, set1, dot)                                       \
    target static QC_INLINE void name##_body(const struct qc_tile *t, const int rows, const int n, const int all)      \
    {                                                                                                                  \
        TYPE acc[QC_TILE_MOST][QC_TILE_BLOCKS * (VECTORS)], b[QC_TILE_BLOCKS * (VECTORS)];                             \
        const ptrdiff_t step = t->step, width = (ptrdiff_t)all * QC_TILE_CHANNELS;                                     \
        const uint8_t *w = t->w, *p[QC_TILE_MOST / 3 + 1];                                                             \
        QC_UNROLL for (int m = 0; m < rows; m++) QC_UNROLL for (int k = 0; k < n; k++) acc[m][k] =                     \
            load((const void *)(t->bias + k * (LANES)));                                                               \
        for (size_t r = 0; r < t->runs; r++) {                                                                         \
            QC_UNROLL for (int m = 0; m < rows; m += 3) p[m / 3] = t->a + t->run[r] + m * step;                        \
            for (size_t q = 0; q < t->quads; q++) {                                                                    \
                QC_UNROLL for (int k = 0; k < n; k++) b[k] = load((const void *)(w + 4 * k * (LANES)));                \
                QC_UNROLL for (int m = 0; m < rows; m++)                                                               \
                {                                                                                                      \
                    const TYPE a = set1(quad(QC_ROW(m)));                                                              \
                    QC_UNROLL for (int k = 0; k < n; k++) acc[m][k] = dot(acc[m][k], a, b[k]);                         \
                }                                                                                                      \
                QC_UNROLL for (int m = 0; m < rows; m += 3) p[m / 3] += 4;                                             \
                w += 4 * width;                                                                                        \
            }                                                                                                          \
        }                                                                                                              \
        QC_UNROLL for (int m = 0; m < rows; m++) QC_UNROLL for (int k = 0; k < n; k++)                                 \
            store((void *)(t->acc + m * width + k * (LANES)), acc[m][k]);                                              \
    }
#define QC_TILE_ONE(name, target, m, n)                                                                                \
    target static void name##_##m##_##n(const struct qc_tile *t)                                                       \
    {                                                                                                                  \
        name##_body(t, m, n, n); /* a vector is a block */                                                             \
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
    QC_TILE_ONE(name, target, 16, 1)                                                                                   \
    QC_TILE_ONE(name, target, 12, 2)                                                                                   \
    void name(const struct qc_tile *t, int rows, int blocks)                                                           \
    {                                                                                                                  \
        static void (*const all[4][QC_TILE_BLOCKS])(                                                                   \
            const struct qc_tile *) = {QC_TILE_ENTRIES(name, 1), QC_TILE_ENTRIES(name, 2), QC_TILE_ENTRIES(name, 4),   \
                                       QC_TILE_ENTRIES(name, 8)};                                                      \
        if (rows > 8)                                                                                                  \
            (blocks == 1 ? name##_16_1 : name##_12_2)(t);                                                              \
        else                                                                                                           \
            all[rows == 8 ? 3 : rows == 4 ? 2 : rows == 2 ? 1 : 0][blocks - 1](t);                                     \
    }

/* Returns the part of a tile that starts at channel c and row m; the tile has `blocks` blocks. */
static QC_INLINE struct qc_tile qc_tile_part(const struct qc_tile *t, int m, int c, int blocks)
{
    struct qc_tile part = *t;
    part.a += m * t->step;
    part.w += (ptrdiff_t)4 * c;
    part.bias += c;
    part.acc += m * blocks * QC_TILE_CHANNELS + c;
    return part;
}

/* For registers that cannot hold the sums of a whole tile: four rows of SOME vectors, or of MORE for three blocks; six
   rows of SOME if there are twelve. */
#define QC_TILE_SMALL(name, target, LANES, SOME, MORE)                                                                 \
    target void name(const struct qc_tile *t, int rows, int blocks)                                                    \
    {                                                                                                                  \
        const int n = blocks == 3 && rows >= 4 ? (MORE) : (SOME), each = rows == 12 ? 6 : 4;                           \
        for (int m = 0; m < rows; m += each)                                                                           \
            for (int c = 0; c < blocks * QC_TILE_CHANNELS; c += n * (LANES)) {                                         \
                const struct qc_tile part = qc_tile_part(t, m, c, blocks);                                             \
                if (each == 6)                                                                                         \
                    name##_body(&part, 6, SOME, blocks);                                                               \
                else if (rows >= 4 && n == (MORE))                                                                     \
                    name##_body(&part, 4, MORE, blocks);                                                               \
                else if (rows >= 4)                                                                                    \
                    name##_body(&part, 4, SOME, blocks);                                                               \
                else if (rows == 2)                                                                                    \
                    name##_body(&part, 2, SOME, blocks);                                                               \
                else                                                                                                   \
                    name##_body(&part, 1, SOME, blocks);                                                               \
            }                                                                                                          \
    }
