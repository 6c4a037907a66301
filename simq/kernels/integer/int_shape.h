// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: sizes of a multiply-accumulate op in integers. */
#ifndef QC_SIMQ_KERNELS_INTEGER_INT_SHAPE_H
#define QC_SIMQ_KERNELS_INTEGER_INT_SHAPE_H

#include <stdbool.h>
#include <stdint.h>

/* Always three spatial dimensions; a matrix product has its rows along the last one. */
struct qc_int_shape {
    bool transposed; /* ConvTranspose: data is spread out by `stride`, then convolved with flipped weights */
    int64_t batch, groups;
    int64_t inputs, outputs; /* channels per group */
    int64_t in[3], out[3], kernel[3], stride[3], dilation[3], begin[3];
};

#endif
