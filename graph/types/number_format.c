// SPDX-License-Identifier: Apache-2.0
#include "graph/types/number_format.h"

#include <math.h>
#include <string.h>

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
