// SPDX-License-Identifier: Apache-2.0
/* Floating-point numbers of 4 and 8 bits: OCP's 8-bit and microscaling formats and the FNUZ formats (ONNX, "Float
   stored in 8 bits", "Float stored in 4 bits", "Float8E8M0"). Each number takes a byte in memory. */
#pragma once

#include "graph/types/dtype.h"

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
