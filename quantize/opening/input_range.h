// SPDX-License-Identifier: Apache-2.0
/* Are the data what the model was trained on? A batch norm at its beginning remembers mean and variance of what it saw.
 */
#pragma once

#include "datasets/samples/dataset.h"
#include "graph/core/graph.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

/* Warns where the first samples of an input reach the first batch norm, directly or through one Conv or Gemm, at
   another size than it remembers: more than 8 times as large, or less than 1/8, in the median of its channels. Where
   there is no such batch norm, where images have values like those of pixels and neither data nor options say what
   becomes of them. Fails for no reason: what cannot be run is found out by the job itself. */
void qc_warn_input_range(struct qc_warnings *w, const struct qc_graph *imported, const struct qc_dataset *data,
                         const struct qc_options *o);
