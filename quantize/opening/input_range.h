// SPDX-License-Identifier: Apache-2.0
/* Checks whether the data have the range of the training data, by the mean and variance stored in a batch norm near the
   input. */
#pragma once

#include "datasets/samples/dataset.h"
#include "graph/core/graph.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

/* Warns if the first samples of an input reach the first batch norm, directly or through one Conv or Gemm, with another
   standard deviation than it stores: 8 times as large, or 1/8, in the median of its channels. Without such a batch
   norm, warns if images have values like pixels and neither data nor options define a preprocessing. Ignores errors:
   the job itself reports them. */
void qc_warn_input_range(struct qc_warnings *w, const struct qc_graph *imported, const struct qc_dataset *data,
                         const struct qc_options *o);
