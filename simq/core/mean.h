// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: means over dimensions of affine values (ReduceMean, GlobalAveragePool), whichever numbers they are
   summed in. Sums lie row-major in the shape of the result, so that in a view of the input's shape the reduced
   dimensions stand still. */
#pragma once

#include "simq/core/kernel_util.h"

struct qc_mean {
    bool reduced[QC_RANK_MAX];
    bool keep;     /* reduced dimensions have size 1 in the result */
    int64_t count; /* of numbers in one mean, rounded to float32, in which ONNX Runtime has it */
};

/* What the node reduces; asks for scratch of `size` bytes per sum. */
bool qc_mean_of(struct qc_mean *out, struct qc_prepare *p, size_t size, struct qc_status *st);

/* The sums, in the scratch memory and set to 0: in the shape of the result, and of the input. size: as above, of type
   t. */
void qc_mean_sums(struct qc_view *sums, struct qc_view *wide, const struct qc_mean *m, const struct qc_run *r,
                  enum qc_dtype t);
