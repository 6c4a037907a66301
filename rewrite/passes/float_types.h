// SPDX-License-Identifier: Apache-2.0
/* Models in other floats than float32: 16 bits, or double. They are calibrated and quantized in float32; what stays
   outside of the integers leaves in the type that it came in. */
#pragma once

#include "graph/core/graph.h"

enum qc_widening {
    QC_WIDEN_LAYERS, /* float16 and bfloat16 where a layer computes in them; double where none computes in float32 */
    QC_WIDEN_PORTS   /* and what an input or output of the graph has */
};

/* The same graph in float32: ports, constants, results, bodies; names stay, and a Cast from one float to another goes.
 *out = NULL: there is nothing to widen. An operator of the user's own gets the types that it has, between Casts. */
bool qc_widen_floats(struct qc_graph **out, const struct qc_graph *g, enum qc_widening what, struct qc_status *st);

/* A produced graph, made of what was widened, with the types that `own`, the graph before, has by name: its ports;
   float operators and their constants. In float32 stay, with Casts around: quantize and dequantize, what reads an
   accumulator or weights of integers, bodies, and what the own type could not hold. ONNX Runtime has no operators of
   bfloat16 on a CPU: constants are kept in it and widened where they are read. */
bool qc_narrow_floats(struct qc_graph **out, const struct qc_graph *g, const struct qc_graph *own,
                      struct qc_status *st);
