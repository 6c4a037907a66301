// SPDX-License-Identifier: Apache-2.0
/* Number formats: the levels, the permitted scales, and how many elements share a scale. */
#pragma once

#include "graph/types/dtype.h"

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

/* Returns the scale t of a tensor whose largest block scale is `largest`. Each block scale becomes code * t, which is
   exact; the codes are E4M3 numbers of at most 448. */
float qc_scale_over(float largest);
