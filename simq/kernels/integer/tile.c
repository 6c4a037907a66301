// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/tile.h"

#include <string.h>

#include "base/simd.h"
#include "simq/kernels/integer/depthwise.h"

struct qc_tile_set qc_tile_set_of(enum qc_isa isa)
{
    struct qc_tile_set s = {.narrow = qc_tile_narrow_plain,
                            .wide = qc_tile_wide_plain,
                            .rows = {0, QC_TILE_ROWS, QC_TILE_ROWS, QC_TILE_ROWS},
                            .narrow_depthwise = qc_depthwise_narrow,
                            .wide_depthwise = qc_depthwise_wide};
#if defined(__x86_64__) && defined(__GNUC__)
    if (isa >= QC_ISA_AVX512) s.rows[1] = 16;
    if (isa == QC_ISA_AVX_VNNI) s.rows[1] = 12;
    if (isa >= QC_ISA_AVX512 || isa == QC_ISA_AVX_VNNI) s.rows[2] = 12;
    if (isa >= QC_ISA_AVX512_VNNI) {
        s.amx = isa == QC_ISA_AMX;
        s.narrow = qc_tile_narrow_vnni;
        s.wide = qc_tile_wide_vnni;
        s.narrow_depthwise = qc_depthwise_vnni;
        s.depthwise_pair = qc_depthwise_pair_vnni;
        s.depthwise_line = qc_depthwise_line_vnni;
        s.taps = QC_TAPS_QUADS;
    } else if (isa >= QC_ISA_AVX2) {
        s.narrow = isa == QC_ISA_AVX512     ? qc_tile_pairs_avx512
                   : isa == QC_ISA_AVX_VNNI ? qc_tile_narrow_avx_vnni
                                            : qc_tile_pairs_avx2;
        s.wide = isa == QC_ISA_AVX512 ? qc_tile_wide_avx512 : qc_tile_wide_avx2;
        s.pairs = isa != QC_ISA_AVX_VNNI;
        s.narrow_depthwise = qc_depthwise_avx2;
        s.depthwise_line = qc_depthwise_line_avx2;
        s.taps = QC_TAPS_PAIRS;
    }
#elif defined(__aarch64__) && defined(__GNUC__)
    if (isa >= QC_ISA_NEON) {
        s.wide = qc_tile_wide_neon;
        s.narrow = isa >= QC_ISA_NEON_I8MM  ? qc_tile_narrow_i8mm
                   : isa == QC_ISA_NEON_DOT ? qc_tile_narrow_dot
                                            : qc_tile_pairs_neon;
        s.pairs = isa == QC_ISA_NEON;
        s.is_signed = isa < QC_ISA_NEON_I8MM;
    }
#else
#endif
    return s;
}

/* Sums modulo 2^32, as vector instructions do. */
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
