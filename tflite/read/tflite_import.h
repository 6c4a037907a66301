// SPDX-License-Identifier: Apache-2.0
/* TensorFlow Lite model file -> graph. */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/model_info.h"

/* Is this the beginning of a TensorFlow Lite model? */
bool qc_is_tflite(const void *bytes, size_t size);
bool qc_is_tflite_file(const char *path); /* false too where it cannot be read */

/* Reads the first subgraph of a TensorFlow Lite model into the form of graph/types/ops.def, as if it were ONNX with
   QuantizeLinear and DequantizeLinear. *out is owned (qc_graph_free); info may be NULL; memory_limit 0: none.
   - Images have channels first inside. Inputs and outputs keep their type and shape; a Transpose stands there, and
   where an operator needs the order of the file.
   - A tensor with parameters is stored by QuantizeLinear and read by DequantizeLinear, constants by the latter alone. A
   bias has the scale of its accumulator, whatever the file says, as in TensorFlow Lite's kernels.
   - A fused activation is Relu, Clip or Tanh; none where the levels of the result cut off as much.
   - Inputs and outputs have the names of the signature, if there is one, else those of the tensors. The first dimension
   is free where the signature of a shape says so.
   Errors: QC_BAD_INPUT truncated, damaged or inconsistent (the place or the operator is named); QC_UNSUPPORTED names
   every operator that is not handled; QC_MACHINE. */
bool qc_tflite_import(struct qc_graph **out, struct qc_model_info *info, const char *path, size_t memory_limit,
                      struct qc_status *st);
bool qc_tflite_import_memory(struct qc_graph **out, struct qc_model_info *info, const void *bytes, size_t size,
                             size_t memory_limit, struct qc_status *st);
