// SPDX-License-Identifier: Apache-2.0
/* TensorFlow Lite model file -> graph. */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/model_info.h"

/* True if these bytes begin a TensorFlow Lite model. */
bool qc_is_tflite(const void *bytes, size_t size);
bool qc_is_tflite_file(const char *path); /* also false if the file cannot be read */

/* Reads the first subgraph of a TensorFlow Lite model into the form of graph/types/ops.def, as if it were ONNX with
   QuantizeLinear and DequantizeLinear. *out is owned by the caller (qc_graph_free). info may be NULL. memory_limit 0:
   no limit.
   - Images have channels first in the graph. Inputs and outputs keep their type and shape: a Transpose follows or
     precedes them, and also operators that need the file's order.
   - A tensor with qparams becomes a QuantizeLinear and a DequantizeLinear, a constant only the latter. A bias has the
     scale of its accumulator, as in TFLite's kernels; the scale in the file is ignored.
   - A fused activation becomes Relu, Clip or Tanh, or nothing if the levels of the result clip to the same bounds.
   - Inputs and outputs have the names of the signature if there is one, otherwise those of the tensors. The first
     dimension is free if the shape signature says so.
   Fails with QC_BAD_INPUT if the file is truncated, damaged or inconsistent (the message names the place or the
   operator), with QC_UNSUPPORTED and a list of all unsupported operators, or with QC_MACHINE. */
bool qc_tflite_import(struct qc_graph **out, struct qc_model_info *info, const char *path, size_t memory_limit,
                      struct qc_status *st);
bool qc_tflite_import_memory(struct qc_graph **out, struct qc_model_info *info, const void *bytes, size_t size,
                             size_t memory_limit, struct qc_status *st);
