// SPDX-License-Identifier: Apache-2.0
/* Accumulators that sums may overflow. Unbounded sums give everything except saturated results that overflowed:
   those are summed a second time, one product at a time. */
#include <string.h>

#include "base/simd.h"
#include "simq/kernels/integer/tile.h"

/* Sums of one row of a tile and their extremes, in type T; W weights of BITS bits in each 32-bit group. */
#define QC_SUMS(NAME, T, DATA, W, BITS)                                                                                \
    static QC_INLINE void NAME##_body(T *restrict sum, T *restrict lo, T *restrict hi, const struct qc_tile *t,        \
                                      ptrdiff_t row, size_t n, int32_t zero)                                           \
    {                                                                                                                  \
        const uint8_t *w = t->w;                                                                                       \
        for (size_t c = 0; c < n; c++) sum[c] = t->bias[c];                                                            \
        for (size_t c = 0; c < n; c++) lo[c] = hi[c] = sum[c];                                                         \
        for (size_t r = 0; r < t->runs; r++) {                                                                         \
            const uint8_t *a = t->a + row + t->run[r];                                                                 \
            for (size_t q = 0; q < t->quads; q++, a += 4, w += 4 * n) {                                                \
                DATA x[W];                                                                                             \
                uint32_t group[QC_TILE_WIDTH];                                                                         \
                memcpy(x, a, 4);                                                                                       \
                memcpy(group, w, 4 * n);                                                                               \
                for (int i = 0; i < (W); i++) {                                                                        \
                    const T v = (T)x[i] - zero;                                                                        \
                    for (size_t c = 0; c < n; c++) {                                                                   \
                        sum[c] += v * ((int32_t)(group[c] << (32 - (BITS) * (i + 1))) >> (32 - (BITS)));               \
                        lo[c] = sum[c] < lo[c] ? sum[c] : lo[c];                                                       \
                        hi[c] = sum[c] > hi[c] ? sum[c] : hi[c];                                                       \
                    }                                                                                                  \
                }                                                                                                      \
            }                                                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    QC_SIMD(NAME,                                                                                                      \
            (T *restrict sum, T *restrict lo, T *restrict hi, const struct qc_tile *t, ptrdiff_t row, size_t n,        \
             int32_t zero),                                                                                            \
            (sum, lo, hi, t, row, n, zero))
QC_SUMS(sums_narrow, int32_t, uint8_t, 4, 8)
QC_SUMS(sums_narrow_long, int64_t, uint8_t, 4, 8)
QC_SUMS(sums_wide, int32_t, int16_t, 2, 16)
QC_SUMS(sums_wide_long, int64_t, int16_t, 2, 16)

struct range {
    int64_t lo, hi;
};

static int64_t wrapped(int64_t v, unsigned bits)
{
    const uint64_t low = (uint64_t)v & (((uint64_t)1 << bits) - 1);
    return low >> (bits - 1) ? (int64_t)low - ((int64_t)1 << bits) : (int64_t)low;
}

static int64_t clamped(int64_t v, struct range r)
{
    return v < r.lo ? r.lo : v > r.hi ? r.hi : v;
}

/* Sums channel c of a row again, saturating after each addition. */
static int64_t saturating(const struct qc_tile *t, ptrdiff_t row, size_t n, size_t c, const struct qc_tile_narrow *how,
                          struct range range)
{
    const uint8_t *w = t->w + 4 * c;
    int64_t acc = clamped(t->bias[c], range);
    for (size_t r = 0; r < t->runs; r++) {
        const uint8_t *a = t->a + row + t->run[r];
        for (size_t q = 0; q < t->quads; q++, a += 4, w += 4 * n)
            for (size_t i = 0; i < (how->wide ? 2 : 4); i++) {
                int16_t x = a[i], y = (int8_t)w[i];
                if (how->wide) memcpy(&x, a + 2 * i, 2);
                if (how->wide) memcpy(&y, w + 2 * i, 2);
                acc = clamped(acc + ((int64_t)x - how->zero) * y, range);
            }
    }
    return acc;
}

void qc_tile_narrow(const struct qc_tile *t, int rows, int blocks, const struct qc_tile_narrow *how,
                    struct qc_sums *sums)
{
    const size_t n = (size_t)blocks * QC_TILE_CHANNELS;
    const struct qc_accumulator a = how->accumulator;
    const bool last = a.overflow == QC_OVERFLOW_LAST;
    /* A 32-bit result is limited to values that float32 holds, the type of simulated graphs. */
    const struct range range = {-((int64_t)1 << (a.bits - 1)),
                                ((int64_t)1 << (a.bits - 1)) - (last && a.bits == 32 ? 128 : 1)};
    int64_t sum[QC_TILE_WIDTH], lo[QC_TILE_WIDTH], hi[QC_TILE_WIDTH];
    int32_t sum32[QC_TILE_WIDTH], lo32[QC_TILE_WIDTH], hi32[QC_TILE_WIDTH];
    for (int m = 0; m < rows; m++) {
        const ptrdiff_t row = m * t->step;
        int32_t *acc = t->acc + (size_t)m * n;
        if (how->narrow_sums) {
            (how->wide ? sums_wide : sums_narrow)(sum32, lo32, hi32, t, row, n, how->zero);
            for (size_t c = 0; c < n; c++) {
                sum[c] = sum32[c];
                lo[c] = lo32[c];
                hi[c] = hi32[c];
            }
        } else {
            (how->wide ? sums_wide_long : sums_narrow_long)(sum, lo, hi, t, row, n, how->zero);
        }
        memset(acc, 0, n * sizeof *acc);
        for (size_t c = 0; c < how->channels; c++) {
            int64_t *lowest = &sums->lowest[how->first + c], *highest = &sums->highest[how->first + c], v = sum[c];
            const bool left = last ? v < range.lo || v > range.hi : lo[c] < range.lo || hi[c] > range.hi;
            if (last) v = clamped(v, range);
            if (left && a.overflow == QC_OVERFLOW_SATURATE) v = saturating(t, row, n, c, how, range);
            acc[c] = (int32_t)wrapped(v, a.overflow == QC_OVERFLOW_WATCH ? 32 : a.bits);
            sums->overflows += left;
            *lowest = lo[c] < *lowest ? lo[c] : *lowest;
            *highest = hi[c] > *highest ? hi[c] : *highest;
        }
        sums->results += how->channels;
    }
}
