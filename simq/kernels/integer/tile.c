// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/tile.h"

#include <string.h>

#include "base/simd.h"

/* Sums are modulo 2^32, as those of vectors are. */
static QC_INLINE int32_t dot_narrow(int32_t acc, const uint8_t *a, const uint8_t *w)
{
    uint32_t sum = (uint32_t)acc;
    for (int i = 0; i < 4; i++) sum += (uint32_t)((int32_t)a[i] * (int8_t)w[i]);
    return (int32_t)sum;
}

static QC_INLINE int32_t dot_wide(int32_t acc, const uint8_t *a, const uint8_t *w)
{
    int16_t x[2], y[2];
    memcpy(x, a, 4);
    memcpy(y, w, 4);
    return (int32_t)((uint32_t)acc + (uint32_t)(x[0] * y[0]) + (uint32_t)(x[1] * y[1]));
}

#define QC_PLAIN(name, dot)                                                                                            \
    void name(const struct qc_tile *t, int rows, int blocks)                                                           \
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
QC_PLAIN(qc_tile_narrow_plain, dot_narrow)
QC_PLAIN(qc_tile_wide_plain, dot_wide)
