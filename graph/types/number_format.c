// SPDX-License-Identifier: Apache-2.0
#include "graph/types/number_format.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "arith/float_level.h"
#include "graph/types/dtype.h"

/* Sign, exponent and mantissa. With `unsigned_zero` the pattern of -0 is NaN; there is no other NaN and no infinity. */
struct format {
    int exponent, mantissa, bias;
    bool unsigned_zero, has_infinity;
    uint8_t most; /* pattern of the largest number */
    int nan;      /* pattern of a NaN; -1: none */
};

static struct format format_of(enum qc_dtype t)
{
    static const struct format formats[QC_DTYPE_COUNT] = {
        [QC_F8E4M3] = {.exponent = 4, .most = 0x7e, .nan = 0x7f},
        [QC_F8E4M3Z] = {.exponent = 4, .unsigned_zero = true, .most = 0x7f, .nan = 0x80},
        [QC_F8E5M2] = {.exponent = 5, .has_infinity = true, .most = 0x7b, .nan = 0x7e},
        [QC_F8E5M2Z] = {.exponent = 5, .unsigned_zero = true, .most = 0x7f, .nan = 0x80},
        [QC_F4E2M1] = {.exponent = 2, .most = 0x7, .nan = -1},
        [QC_F8E8M0] = {.exponent = 8, .most = 0xfe, .nan = 0xff},
    };
    struct format f = formats[t];
    f.mantissa = qc_dtype_info(t)->mantissa;
    f.bias = 1 - qc_dtype_info(t)->least;
    return f;
}

float qc_small_to_float(enum qc_dtype t, uint8_t bits)
{
    const struct format f = format_of(t);
    if (t == QC_F8E8M0) return bits == 0xff ? NAN : ldexpf(1, (int)bits - 127);
    const unsigned sign = 1U << (f.exponent + f.mantissa), pattern = bits & (sign - 1);
    const bool negative = (bits & sign) != 0;
    if (f.unsigned_zero ? negative && pattern == 0 : pattern > f.most && !(f.has_infinity && pattern == f.most + 1U))
        return NAN;
    const int e = (int)(pattern >> f.mantissa), m = (int)(pattern & ((1U << f.mantissa) - 1));
    const float v = pattern > f.most ? INFINITY
                    : e              ? ldexpf((float)(m + (1 << f.mantissa)), e - f.bias - f.mantissa)
                                     : ldexpf((float)m, 1 - f.bias - f.mantissa);
    return negative ? -v : v;
}

uint8_t qc_float_to_small(enum qc_dtype t, double v, enum qc_small_overflow overflow, enum qc_small_rounding rounding)
{
    const struct format f = format_of(t);
    const bool negative = signbit(v), saturates = overflow == QC_SMALL_SATURATES || f.nan < 0;
    const unsigned sign = t == QC_F8E8M0 ? 0 : negative ? 1U << (f.exponent + f.mantissa) : 0;
    const unsigned infinite = f.has_infinity ? f.most + 1U + sign : (unsigned)f.nan | (f.unsigned_zero ? 0 : sign);
    if (isnan(v)) return f.nan < 0 ? f.most + 1 : (uint8_t)f.nan;
    if (isinf(v)) return (uint8_t)(saturates ? f.most | sign : infinite);
    if (t == QC_F8E8M0) {
        /* The pattern of the power of two at, above or below v > 0. */
        int e;
        const double m = frexp(v, &e); /* v = m * 2^e, 0.5 <= m < 1: the next power below is 2^(e-1) */
        const bool up = (rounding == QC_SMALL_UP && m > 0.5) || (rounding == QC_SMALL_NEAREST && m >= 0.75);
        const int pattern = e - 1 + up + 127;
        if (v <= 0 || pattern < 0) return 0;
        if (pattern > 0xfe) return overflow == QC_SMALL_SATURATES ? 0xfe : 0xff;
        return (uint8_t)pattern;
    }
    const double a = fabs(v);
    int e = a > 0 ? ilogb(a) : 1 - f.bias;
    if (e < 1 - f.bias) e = 1 - f.bias;
    if (e > f.bias + 2) return (uint8_t)(saturates ? f.most | sign : infinite);
    /* Multiples of the last place. A carry into the exponent field gives the correct pattern. */
    const unsigned steps = (unsigned)nearbyint(ldexp(a, f.mantissa - e)),
                   pattern = steps + ((unsigned)(e + f.bias - 1) << f.mantissa);
    if (pattern > f.most) return (uint8_t)(saturates ? f.most | sign : infinite);
    if (pattern == 0 && f.unsigned_zero) return 0;
    return (uint8_t)(pattern | sign);
}

static const struct qc_number_format formats[] = {
#define QC_NUMBER_FORMAT(c, format, type, lowest, highest, digits, exponent, width, kind, size, text)                  \
    {.name = (format),                                                                                                 \
     .summary = (text),                                                                                                \
     .dtype = QC_##type,                                                                                               \
     .levels = {.lo = (lowest), .hi = (highest), .mantissa = (digits), .least = (exponent)},                           \
     .bits = (width),                                                                                                  \
     .scale = QC_SCALE_##kind,                                                                                         \
     .block = (size)},
    QC_NUMBER_FORMATS(QC_NUMBER_FORMAT, )
#undef QC_NUMBER_FORMAT
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
    return fmaxf(ldexpf(ceilf(m * 0x1p16f), e - 16), FLT_MIN);
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
