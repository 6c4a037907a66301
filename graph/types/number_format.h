// SPDX-License-Identifier: Apache-2.0
/* Number formats: which levels there are, which scales, and how many elements share one. */
#pragma once

#include "graph/types/dtype.h"

/* Numbers that a scale can be: any float32; 2^k; numbers of E4M3 times one float32 scale of the whole tensor. */
enum qc_scale_kind { QC_SCALE_FLOAT, QC_SCALE_POWER_OF_TWO, QC_SCALE_FLOAT8 };

struct qc_number_format {
    const char *name, *summary;
    enum qc_dtype dtype; /* as a file stores the levels */
    struct qc_levels levels;
    unsigned bits; /* of an element; its type in a file may have more */
    enum qc_scale_kind scale;
    int block; /* elements that share a scale */
};

/* NULL: there is none of that name. */
const struct qc_number_format *qc_number_format_named(const char *name);

/* The scales of a tensor under one scale t, a positive float32: scale[i] becomes code * t, exactly, with the codes
   numbers of E4M3 and the largest of them 448. t is that of the largest scale. */
float qc_scale_over(float largest);
