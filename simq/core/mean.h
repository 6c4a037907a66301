// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: means over dimensions of affine values (ReduceMean, GlobalAveragePool), independent of the type of
   the sums. Sums are row-major in the shape of the result. In a view with the shape of the input, the reduced
   dimensions have stride 0. */
#pragma once

#include "simq/core/kernel_util.h"

struct qc_mean {
    bool reduced[QC_RANK_MAX];
    bool keep;     /* reduced dimensions have size 1 in the result */
    int64_t count; /* numbers per mean, rounded to float32 as in ONNX Runtime */
};

/* Reads which dimensions the node reduces, and requests scratch of `size` bytes per sum. */
bool qc_mean_of(struct qc_mean *out, struct qc_prepare *p, size_t size, struct qc_status *st);

/* Sets the sums, in the scratch memory, to 0. Returns views of them in the shape of the result (`sums`) and of the
   input (`wide`). t: type of the sums, of the size given to qc_mean_of. */
void qc_mean_sums(struct qc_view *sums, struct qc_view *wide, const struct qc_mean *m, const struct qc_run *r,
                  enum qc_dtype t);
