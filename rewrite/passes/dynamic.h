// SPDX-License-Identifier: Apache-2.0
/* Dynamic quantization: products of a float input and a constant matrix of 8 bits, or of int4 held in int8. Each run
   quantizes the input to uint8 by its own minimum and maximum:

     q, s, z = DynamicQuantizeLinear(x)      y = Cast(MatMulInteger(q, w, z, zw)) * (s * sw) (+ bias)

   The order of multiplications is that of ONNX Runtime, which fuses them to MatMulIntegerToFloat and
   DynamicQuantizeMatMul. Integer products are exact, so results are the same to the bit. */
#pragma once

#include "rewrite/passes/partition.h"

/* Returns true if the op can be a MatMulInteger or a DynamicQuantizeLSTM. The partition asks this for ops whose weights
   alone are quantized. */
bool qc_dynamic_op(const struct qc_node *n, enum qc_dtype weight);

/* Returns the axis of the first input that the node sums over, as an attribute of RoundInBlocks: 1, -1 for the last
   one, 0 if there is none. A depthwise convolution sums over no channels. *length: its dimension, from that of the
   weight. */
int qc_input_axis(int64_t *length, const struct qc_graph *g, const struct qc_node *n);

/* Converts the nodes that the partition chose (p->dynamic) and whose weights are bound to integer products, or to an
   LSTM with QC_RECURRENT_DYNAMIC (graph/core/recurrent.h) if its zero points do not differ. Rounds the input of the
   nodes that have p->input_format by RoundInBlocks. Each keeps its name and that of its result. g: simulated, made of
   this partition; nodes are found by the names of their results. *out is NULL if there is none. */
bool qc_make_dynamic(struct qc_graph **out, const struct qc_graph *g, const struct qc_partition *p,
                     struct qc_status *st);

/* The part of a node in such a product. RoundInBlocks is a rest. */
enum qc_dynamic_part { QC_DYNAMIC_NOT, QC_DYNAMIC_PRODUCT, QC_DYNAMIC_REST };
enum qc_dynamic_part qc_dynamic_part_of(const struct qc_graph *g, const struct qc_node *n);
