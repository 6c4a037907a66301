// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/integer/depthwise.h"

#include <string.h>

#include "base/simd.h"

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
    QC_SIMD(name, (const struct qc_depthwise *d), (d))                                                                 \
    void qc_##name(const struct qc_depthwise *d)                                                                       \
    {                                                                                                                  \
        name(d);                                                                                                       \
    }
QC_DEPTHWISE(depthwise_narrow, uint8_t)
QC_DEPTHWISE(depthwise_wide, int16_t)

size_t qc_depthwise_vector(enum qc_taps form)
{
    return form == QC_TAPS_QUADS ? QC_DEPTHWISE_BLOCK : form == QC_TAPS_PAIRS ? 16 : 1;
}

/* Returns how many taps are interleaved. */
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
