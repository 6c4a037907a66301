// SPDX-License-Identifier: Apache-2.0
/* Models with other floats than float32: 16 bits, or double. They are calibrated and quantized in float32; float
   operators of the produced graph get the model's own types back. */
#pragma once

#include "graph/core/graph.h"

enum qc_widening {
    QC_WIDEN_LAYERS, /* float16 and bfloat16 if a layer computes in them; double if layers compute in it and none in
                        float32 */
    QC_WIDEN_PORTS   /* also the float types of inputs and outputs of the graph */
};

/* *out: the same graph in float32: inputs, outputs, constants, results and bodies. Names stay, and a Cast from one
   float to another goes. NULL: the graph has nothing to widen. A custom operator keeps its types, between Casts. */
bool qc_widen_floats(struct qc_graph **out, const struct qc_graph *g, enum qc_widening what, struct qc_status *st);

/* *out: a produced graph of a widened one with the types that the original graph `own` has by name: inputs, outputs,
   float operators and their constants. Quantize and dequantize, readers of accumulators and integer weights, bodies,
   and numbers that the own type cannot hold stay in float32, with Casts around. ONNX Runtime has no bfloat16 operators
   on a CPU: constants are stored in bfloat16 and widened where they are read. */
bool qc_narrow_floats(struct qc_graph **out, const struct qc_graph *g, const struct qc_graph *own,
                      struct qc_status *st);
