// SPDX-License-Identifier: Apache-2.0
/* Floating-point numbers of 4 and 8 bits: OCP's 8-bit and microscaling formats and the FNUZ ones (ONNX, "Float stored
   in 8 bits", "Float stored in 4 bits", "Float8E8M0"). In memory each is a byte. */
#pragma once

#include "graph/types/dtype.h"

/* All of them, in a switch. */
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

/* What becomes of numbers that the type does not hold, and where numbers of F8E8M0, powers of two, go. The others round
 * half to even. */
enum qc_small_overflow { QC_SMALL_SATURATES, QC_SMALL_OVERFLOWS }; /* to infinity, or NaN where there is none */
enum qc_small_rounding { QC_SMALL_UP, QC_SMALL_DOWN, QC_SMALL_NEAREST };

/* Exact. t is one of the types above. */
float qc_small_to_float(enum qc_dtype t, uint8_t bits);
/* NaN stays NaN; in F4E2M1, which has none, it becomes -0. */
uint8_t qc_float_to_small(enum qc_dtype t, double v, enum qc_small_overflow overflow, enum qc_small_rounding rounding);
