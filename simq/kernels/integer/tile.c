// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/tile.h"

#include <string.h>

#include "base/simd.h"
#include "simq/kernels/integer/depthwise_avx2.h"
#include "simq/kernels/integer/depthwise_vnni.h"
#include "simq/kernels/integer/tile_sets.h"

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

size_t qc_depthwise_vector(enum qc_taps form)
{
    return form == QC_TAPS_QUADS ? QC_DEPTHWISE_BLOCK : form == QC_TAPS_PAIRS ? 16 : 1;
}

/* Taps that lie side by side. */
static size_t group_of(enum qc_taps form)
{
    return form == QC_TAPS_QUADS ? QC_DEPTHWISE_LINES + 1 : form == QC_TAPS_PAIRS ? 2 : 1;
}

size_t qc_depthwise_bytes(size_t taps, size_t channels, enum qc_taps form)
{
    const size_t group = group_of(form), vector = qc_depthwise_vector(form);
    return (taps + group - 1) / group * group * ((channels + vector - 1) / vector * vector) *
           (form == QC_TAPS_QUADS ? 1 : sizeof(int16_t));
}

void qc_depthwise_pack(void *to, const int32_t *w, size_t taps, size_t channels, enum qc_taps form)
{
    const size_t group = group_of(form), vector = qc_depthwise_vector(form);
    int8_t *bytes = to;
    int16_t *words = to;
    for (size_t b = 0; form != QC_TAPS_WORDS && b < channels; b += vector)
        for (size_t g = 0; g < taps; g += group)
            for (size_t i = 0; i < vector; i++)
                for (size_t t = g; t < g + group; t++) {
                    const size_t c = b + qc_depthwise_lane(form, i);
                    const int32_t v = c < channels && t < taps ? w[t * channels + c] : 0;
                    if (form == QC_TAPS_QUADS)
                        *bytes++ = (int8_t)v;
                    else
                        *words++ = (int16_t)v;
                }
    for (size_t i = 0; form == QC_TAPS_WORDS && i < taps * channels; i++) words[i] = (int16_t)w[i];
}

struct qc_tile_set qc_tile_set_of(enum qc_isa isa)
{
    struct qc_tile_set s = {.narrow = narrow_plain,
                            .wide = wide_plain,
                            .narrow_depthwise = depthwise_narrow,
                            .wide_depthwise = depthwise_wide};
#if defined(__x86_64__) && defined(__GNUC__)
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
    (void)isa;
#endif
    return s;
}
