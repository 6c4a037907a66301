// SPDX-License-Identifier: Apache-2.0
/* Dynamic quantization: products of a float input and a constant matrix of 8 bits, the input quantized to uint8 as it
   comes, by its own extremes in each run:

     q, s, z = DynamicQuantizeLinear(x)      y = Cast(MatMulInteger(q, w, z, zw)) * (s * sw) (+ bias)

   in the order in which ONNX Runtime multiplies, also in MatMulIntegerToFloat and DynamicQuantizeMatMul, which it makes
   of them. Integer products are exact, so that everybody gets the same bits. */
#pragma once

#include "rewrite/passes/partition.h"

/* The op can be a MatMulInteger, or a DynamicQuantizeLSTM: what the partition asks of ops that only their weights are
 * quantized of. */
bool qc_dynamic_op(const struct qc_node *n, enum qc_dtype weight);

/* The nodes that the partition chose (p->dynamic), and whose weights are bound, become integer ones, or an LSTM with
   QC_RECURRENT_DYNAMIC (graph/core/recurrent.h) where zero points do not differ; each keeps its
   name and that of its result. g: simulated, from this partition; found again by the names of results. *out is NULL
   where there is none. */
bool qc_make_dynamic(struct qc_graph **out, const struct qc_graph *g, const struct qc_partition *p,
                     struct qc_status *st);

/* What a node is of such a product. */
enum qc_dynamic_part { QC_DYNAMIC_NOT, QC_DYNAMIC_PRODUCT, QC_DYNAMIC_REST };
enum qc_dynamic_part qc_dynamic_part_of(const struct qc_graph *g, const struct qc_node *n);
