// SPDX-License-Identifier: Apache-2.0
/* Number formats: the levels, the permitted scales, and how many elements share a scale. Small floats: OCP's 8-bit and
   microscaling formats and the FNUZ formats of 4 and 8 bits (ONNX, "Float stored in 8 bits", "Float stored in 4 bits",
   "Float8E8M0"). Each number takes a byte in memory. */
#pragma once

#include "graph/types/dtype.h"

/* Number formats of weights whose blocks share a scale:
   X(c, name, type in a file, lowest and highest level, mantissa and least exponent of the levels (arith/params.h), bits
   of an element, scale, elements of a block, summary). If no file type has exactly these levels, a type that contains
   them stores them: E2M3 as eighths in int8. */
#define QC_NUMBER_FORMATS(X, c)                                                                                        \
    X(c, "mxfp8", F8E4M3, -448, 448, 3, -6, 8, POWER_OF_TWO, 32, "OCP microscaling, E4M3")                             \
    X(c, "mxfp8e5m2", F8E5M2, -57344, 57344, 2, -14, 8, POWER_OF_TWO, 32, "OCP microscaling, E5M2")                    \
    X(c, "mxfp6", I8, -60, 60, 3, 3, 6, POWER_OF_TWO, 32, "OCP microscaling, E2M3, stored as eighths in int8")         \
    X(c, "mxfp6e3m2", F8E4M3, -28, 28, 2, -2, 6, POWER_OF_TWO, 32, "OCP microscaling, E3M2, stored as E4M3")           \
    X(c, "mxfp4", F4E2M1, -6, 6, 1, 0, 4, POWER_OF_TWO, 32, "OCP microscaling, E2M1")                                  \
    X(c, "mxint8", I8, -127, 127, 0, 0, 8, POWER_OF_TWO, 32, "OCP microscaling, integers of 8 bits")                   \
    X(c, "nvfp4", F4E2M1, -6, 6, 1, 0, 4, FLOAT8, 16, "NVIDIA's: E2M1, scales E4M3 under one float32 scale")           \
    X(c, "bfp16", I8, -127, 127, 0, 0, 8, POWER_OF_TWO, 8, "AMD's block floating point: 8 bits, one exponent")

/* Permitted scales: any float32; 2^k; E4M3 numbers times one float32 scale of the whole tensor. */
enum qc_scale_kind { QC_SCALE_FLOAT, QC_SCALE_POWER_OF_TWO, QC_SCALE_FLOAT8 };

struct qc_number_format {
    const char *name, *summary;
    enum qc_dtype dtype; /* type of the levels in a file */
    struct qc_levels levels;
    unsigned bits; /* bits of an element; its type in a file may have more */
    enum qc_scale_kind scale;
    int block; /* elements that share a scale */
};

/* Returns NULL if the name is unknown. */
const struct qc_number_format *qc_number_format_named(const char *name);

/* The scale of a block that is chosen at run time: the largest power of two that is at most factor * largest / top,
   where top is that of the highest level. With this factor, a largest element more than half a step above the highest
   level gets the next scale, which does not clip it. */
struct qc_power_scale {
    float factor, top;
};
struct qc_power_scale qc_power_scale_of(struct qc_levels levels);

/* Returns the scale of a block whose largest magnitude is `largest`, and `of_row` in all blocks of its row. The scales
   of QC_SCALE_FLOAT8 are E4M3 numbers times a power of two of the row. onnx/write/emit_node.c writes the same steps.
 */
float qc_block_scale(const struct qc_number_format *f, float largest, float of_row);

/* Magnitudes beyond these limits count as the limits, so that no scale is denormal or infinite. */
#define QC_BLOCK_LEAST 0x1p-100F
#define QC_BLOCK_MOST 0x1p100F

/* The levels of scales in QC_SCALE_FLOAT8. */
#define QC_SCALE_LEVELS ((struct qc_levels){.lo = -448, .hi = 448, .mantissa = 3, .least = -6})

/* Returns the scale t of a tensor whose largest block scale is `largest`. Each block scale becomes code * t, which is
   exact; the codes are E4M3 numbers of at most 448. The scale is never denormal. */
float qc_scale_over(float largest);

/* The case labels of all these types. */
#define QC_CASE_SMALL_FLOATS                                                                                           \
    case QC_F8E4M3:                                                                                                    \
    case QC_F8E4M3Z:                                                                                                   \
    case QC_F8E5M2:                                                                                                    \
    case QC_F8E5M2Z:                                                                                                   \
    case QC_F8E8M0:                                                                                                    \
    case QC_F4E2M1

static inline bool qc_is_small_float(enum qc_dtype t)
{
    return t == QC_F8E4M3 || t == QC_F8E4M3Z || t == QC_F8E5M2 || t == QC_F8E5M2Z || t == QC_F8E8M0 || t == QC_F4E2M1;
}

/* Overflow: numbers beyond the range of the type saturate, or become infinity (NaN if the type has no infinity).
 * Rounding to F8E8M0, whose numbers are powers of two: up, down or to the nearest. Other types round half to even. */
enum qc_small_overflow { QC_SMALL_SATURATES, QC_SMALL_OVERFLOWS };

enum qc_small_rounding { QC_SMALL_UP, QC_SMALL_DOWN, QC_SMALL_NEAREST };

/* Converts exactly. t is one of the types above. */
float qc_small_to_float(enum qc_dtype t, uint8_t bits);

/* NaN stays NaN. F4E2M1 has no NaN: it becomes -0. */
uint8_t qc_float_to_small(enum qc_dtype t, double v, enum qc_small_overflow overflow, enum qc_small_rounding rounding);
