// SPDX-License-Identifier: Apache-2.0
/* A graph of integers and float operators as a TensorFlow Lite model. */
#pragma once

#include "graph/core/graph.h"

/* The file of a produced graph (export/formats/exporter.h). *bytes is owned by the caller (free).

   Values of rank 3 and 4 that convolutions and pools read or make have their channels last, inputs and outputs of the
   model too. Convolutions have weights [out, height, width, in], depthwise ones [1, height, width, out], dense layers
   [out, in]. Errors: QC_UNSUPPORTED lists every operator and type that TensorFlow Lite has no form for. */
bool qc_tfl_export(void **bytes, size_t *size, const struct qc_graph *g, struct qc_status *st);
