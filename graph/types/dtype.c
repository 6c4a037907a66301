// SPDX-License-Identifier: Apache-2.0
#include "graph/types/dtype.h"

#include <math.h>
#include <string.h>

static const struct qc_dtype_info infos[QC_DTYPE_COUNT] = {[QC_NONE] = {.name = "none"},
#define QC_X(NAME, text, data_type, width, floating, sign, lowest, highest, digits, exponent)                          \
    [QC_##NAME] = {.name = (text),                                                                                     \
                   .onnx = (data_type),                                                                                \
                   .bits = (width),                                                                                    \
                   .size = ((width) + 7) / 8,                                                                          \
                   .is_float = (floating),                                                                             \
                   .is_signed = (sign),                                                                                \
                   .lo = (lowest),                                                                                     \
                   .hi = (highest),                                                                                    \
                   .mantissa = (digits),                                                                               \
                   .least = (exponent)},
                                                           QC_DTYPES(QC_X)
#undef QC_X
};

const struct qc_dtype_info *qc_dtype_info(enum qc_dtype t)
{
    return &infos[t];
}

bool qc_dtype_is_affine(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8 || t == QC_U16 || t == QC_I16 || t == QC_U4 || t == QC_I4;
}

size_t qc_dtype_size(enum qc_dtype t)
{
    return infos[t].size;
}

enum qc_dtype qc_dtype_from_onnx(int data_type)
{
    for (int t = 1; t < QC_DTYPE_COUNT; t++)
        if (infos[t].onnx == data_type) return (enum qc_dtype)t;
    return QC_NONE;
}

static const struct {
    const char *name;
    enum qc_dtype t;
} long_names[] = {
    {"float32", QC_F32},
    {"float", QC_F32},
    {"uint8", QC_U8},
    {"int8", QC_I8},
    {"uint16", QC_U16},
    {"int16", QC_I16},
    {"int32", QC_I32},
    {"int64", QC_I64},
    {"float16", QC_F16},
    {"float64", QC_F64},
    {"double", QC_F64},
    {"uint32", QC_U32},
    {"uint64", QC_U64},
    {"bfloat16", QC_BF16},
    {"uint4", QC_U4},
    {"int4", QC_I4},
    {"uint2", QC_U2},
    {"int2", QC_I2},
    {"float8e4m3fn", QC_F8E4M3},
    {"float8e4m3fnuz", QC_F8E4M3Z},
    {"float8e5m2", QC_F8E5M2},
    {"float8e5m2fnuz", QC_F8E5M2Z},
    {"float8e8m0", QC_F8E8M0},
    {"float4e2m1", QC_F4E2M1},
};

const char *qc_dtype_long_name(enum qc_dtype t)
{
    for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++)
        if (long_names[i].t == t) return long_names[i].name;
    return qc_dtype_info(t)->name; /* bool */
}

enum qc_dtype qc_dtype_from_name(const char *name)
{
    for (int t = 1; t < QC_DTYPE_COUNT; t++)
        if (strcmp(infos[t].name, name) == 0) return (enum qc_dtype)t;
    for (size_t i = 0; i < sizeof long_names / sizeof *long_names; i++)
        if (strcmp(long_names[i].name, name) == 0) return long_names[i].t;
    return QC_NONE;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

static uint32_t to_bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

float qc_half_to_float(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000u) << 16, e = (h >> 10) & 31u, m = h & 1023u;
    if (e == 31) return from_bits(sign | 0x7f800000u | m << 13);
    if (e) return from_bits(sign | (e + 112) << 23 | m << 13);
    float f = ldexpf((float)m, -24);
    return sign ? -f : f;
}

uint16_t qc_float_to_half(float f)
{
    uint32_t u = to_bits(f), sign = u >> 16 & 0x8000u, a = u & 0x7fffffffu;
    if (a > 0x7f800000u) return (uint16_t)(sign | 0x7e00u);
    if (a >= 0x477ff000u) return (uint16_t)(sign | 0x7c00u); /* 65520 and above round to infinity */
    if (a < 0x38800000u) {                                   /* subnormal: multiples of 2^-24 */
        return (uint16_t)(sign | (uint32_t)lrintf(ldexpf(from_bits(a), 24)));
    }
    uint32_t r = a - 0x38000000u;
    r += 0xfffu + (r >> 13 & 1u);
    return (uint16_t)(sign | r >> 13);
}

float qc_bfloat_to_float(uint16_t h)
{
    return from_bits((uint32_t)h << 16);
}

uint16_t qc_float_to_bfloat(float f)
{
    uint32_t u = to_bits(f);
    if ((u & 0x7fffffffu) > 0x7f800000u) return (uint16_t)(u >> 16 | 0x40u);
    u += 0x7fffu + (u >> 16 & 1u);
    return (uint16_t)(u >> 16);
}

struct qc_levels qc_levels_of(enum qc_dtype dtype, bool restricted)
{
    const struct qc_dtype_info *t = qc_dtype_info(dtype);
    return (struct qc_levels){.lo = restricted && t->is_signed ? -t->hi : t->lo,
                              .hi = t->hi,
                              .mantissa = t->mantissa,
                              .least = t->least};
}
