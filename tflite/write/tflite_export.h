// SPDX-License-Identifier: Apache-2.0
/* Produced graph -> TensorFlow Lite model file. */
#pragma once

#include "graph/core/graph.h"

/* Gives the file of a produced graph (export/formats/exporter.h). *bytes is owned by the caller (free).

   Values of rank 3 and 4 that convolutions and pools read or compute have their channels last, as have inputs and
   outputs of the model. Weights of convolutions are [out, height, width, in], of depthwise convolutions
   [1, height, width, out], of dense layers [out, in]. Fails with QC_UNSUPPORTED and a list of all operators and types
   that TensorFlow Lite does not have. */
bool qc_tfl_export(void **bytes, size_t *size, const struct qc_graph *g, struct qc_status *st);
