// SPDX-License-Identifier: Apache-2.0
/* Element types of tensors, and the integer levels of the types a value can be quantized to. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "arith/params.h"

/* NAME, text, ONNX data_type, bits, is_float, is_signed, lowest level, highest level, mantissa bits, exponent of the
 * smallest normal number. Integers of up to 32 bits and floats of at most 8 bits that values are quantized to have
 * levels; the last two columns are for these floats. */
#define QC_DTYPES(X)                                                                                                   \
    X(F32, "f32", 1, 32, 1, 1, 0, 0, 0, 0)                                                                             \
    X(U8, "u8", 2, 8, 0, 0, 0, 255, 0, 0)                                                                              \
    X(I8, "i8", 3, 8, 0, 1, -128, 127, 0, 0)                                                                           \
    X(U16, "u16", 4, 16, 0, 0, 0, 65535, 0, 0)                                                                         \
    X(I16, "i16", 5, 16, 0, 1, -32768, 32767, 0, 0)                                                                    \
    X(I32, "i32", 6, 32, 0, 1, INT32_MIN, INT32_MAX, 0, 0)                                                             \
    X(I64, "i64", 7, 64, 0, 1, 0, 0, 0, 0)                                                                             \
    X(BOOL, "bool", 9, 8, 0, 0, 0, 1, 0, 0)                                                                            \
    X(F16, "f16", 10, 16, 1, 1, 0, 0, 0, 0)                                                                            \
    X(F64, "f64", 11, 64, 1, 1, 0, 0, 0, 0)                                                                            \
    X(U32, "u32", 12, 32, 0, 0, 0, 0, 0, 0)                                                                            \
    X(U64, "u64", 13, 64, 0, 0, 0, 0, 0, 0)                                                                            \
    X(BF16, "bf16", 16, 16, 1, 1, 0, 0, 0, 0)                                                                          \
    X(U4, "u4", 21, 4, 0, 0, 0, 15, 0, 0)                                                                              \
    X(I4, "i4", 22, 4, 0, 1, -8, 7, 0, 0)                                                                              \
    X(U2, "u2", 25, 2, 0, 0, 0, 3, 0, 0)                                                                               \
    X(I2, "i2", 26, 2, 0, 1, -2, 1, 0, 0)                                                                              \
    X(F8E4M3, "f8e4m3fn", 17, 8, 1, 1, -448, 448, 3, -6)                                                               \
    X(F8E4M3Z, "f8e4m3fnuz", 18, 8, 1, 1, -240, 240, 3, -7)                                                            \
    X(F8E5M2, "f8e5m2", 19, 8, 1, 1, -57344, 57344, 2, -14)                                                            \
    X(F8E5M2Z, "f8e5m2fnuz", 20, 8, 1, 1, -57344, 57344, 2, -15)                                                       \
    X(F8E8M0, "f8e8m0", 24, 8, 1, 0, 0, 0, 0, 0)                                                                       \
    X(F4E2M1, "f4e2m1", 23, 4, 1, 1, -6, 6, 1, 0)

/* QC_NONE: unknown, or "not quantized". Elements of less than 8 bits take one byte each in memory; files pack two or
 * four into a byte. Floats of at most 8 bits: graph/types/number_format.h. */
enum qc_dtype {
    QC_NONE,
#define QC_X(name, text, onnx, bits, is_float, is_signed, lo, hi, mantissa, least) QC_##name,
    QC_DTYPES(QC_X)
#undef QC_X
        QC_DTYPE_COUNT
};

struct qc_dtype_info {
    const char *name; /* "u8" */
    int onnx;         /* TensorProto.DataType */
    unsigned bits;    /* as stored in a file */
    size_t size;      /* bytes per element in memory */
    bool is_float, is_signed;
    int32_t lo, hi;      /* lowest and highest level */
    int mantissa, least; /* struct qc_levels */
};

const struct qc_dtype_info *qc_dtype_info(enum qc_dtype t); /* QC_NONE: name "none", size 0 */
enum qc_dtype qc_dtype_from_onnx(int data_type);            /* QC_NONE if not supported */
/* Takes short and long names ("u8", "uint8"); returns QC_NONE if the name is unknown. */
enum qc_dtype qc_dtype_from_name(const char *name);
const char *qc_dtype_long_name(enum qc_dtype t); /* "uint8" */
size_t qc_dtype_size(enum qc_dtype t);
/* Returns true for the integers of affine values: u8, i8, u16, i16, u4, i4. */
bool qc_dtype_is_affine(enum qc_dtype t);

/* Returns the levels of a type; `restricted` drops the lowest level of a signed type. */
struct qc_levels qc_levels_of(enum qc_dtype dtype, bool restricted);

/* Convert IEEE 754 binary16 and bfloat16 to and from binary32; rounding is half to even. */
float qc_half_to_float(uint16_t h);
uint16_t qc_float_to_half(float f);
float qc_bfloat_to_float(uint16_t h);
uint16_t qc_float_to_bfloat(float f);
