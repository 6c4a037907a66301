// SPDX-License-Identifier: Apache-2.0
#include "graph/types/number_format.h"

#include <math.h>
#include <string.h>

#include "arith/float_level.h"

static const struct qc_number_format formats[] = {
#define QC_NUMBER_FORMAT(format, type, lowest, highest, digits, exponent, width, kind, size, text)                     \
    {.name = (format),                                                                                                 \
     .summary = (text),                                                                                                \
     .dtype = QC_##type,                                                                                               \
     .levels = {.lo = (lowest), .hi = (highest), .mantissa = (digits), .least = (exponent)},                           \
     .bits = (width),                                                                                                  \
     .scale = QC_SCALE_##kind,                                                                                         \
     .block = (size)},
#include "graph/types/number_formats.def"
};

const struct qc_number_format *qc_number_format_named(const char *name)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (strcmp(formats[i].name, name) == 0) return &formats[i];
    return NULL;
}

/* t is rounded up to 16 significant bits and codes of E4M3 have 4, so every product code * t is an exact float32. */
float qc_scale_over(float largest)
{
    int e;
    const float m = frexpf(largest / 448, &e);
    return ldexpf(ceilf(m * 0x1p16f), e - 16);
}

struct qc_power_scale qc_power_scale_of(struct qc_levels levels)
{
    const float top = ldexpf(1, ilogbf((float)levels.hi)), edge = (float)qc_level_step(levels.hi, levels) / 2;
    return (struct qc_power_scale){.factor = 2 * top / ((float)levels.hi + edge), .top = top};
}

static float power_scale(float largest, struct qc_levels levels)
{
    const struct qc_power_scale p = qc_power_scale_of(levels);
    return ldexpf(1, ilogbf(largest * p.factor)) / p.top;
}

float qc_block_scale(const struct qc_number_format *f, float largest, float of_row)
{
    largest = fminf(fmaxf(largest, QC_BLOCK_LEAST), QC_BLOCK_MOST);
    if (f->scale != QC_SCALE_FLOAT8) return power_scale(largest, f->levels);
    const struct qc_levels codes = QC_SCALE_LEVELS;
    const float highest = (float)f->levels.hi, least = ldexpf(1, codes.least - codes.mantissa);
    const float unit = power_scale(fminf(fmaxf(of_row, QC_BLOCK_LEAST), QC_BLOCK_MOST) / highest, codes);
    const float code =
        qc_float_level(largest / highest / unit, (float)codes.lo, (float)codes.hi, codes.mantissa, codes.least);
    return fmaxf(code, least) * unit;
}
