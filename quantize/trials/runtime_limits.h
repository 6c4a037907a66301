// SPDX-License-Identifier: Apache-2.0
/* Parameters that kernels of ONNX Runtime reject. QLinearGlobalAveragePool ends a run unless f(sx / f(sy*n)) is in
   [2^-32, 2^8), where n is the number of elements of a plane (onnxruntime/core/mlas/lib/qlgavgpool.cpp). A
   GlobalAveragePool between DequantizeLinear and QuantizeLinear is fused into this operator, too. */
#pragma once

#include "graph/core/graph.h"

/* Changes the scales of results in a bound graph so that the kernels accept them. A mean far below its values gets the
   scale of the values divided by 256 times their number. A mean that is 0 in every sample gets the scale of the values.
   Parameters from the model stay. Unknown shapes are not checked, here and below. */
bool qc_keep_runtime_limits(struct qc_graph *g, struct qc_status *st);

/* Fails (QC_UNSUPPORTED, names the node) if a produced graph has parameters that the kernels reject. */
bool qc_check_runtime_limits(const struct qc_graph *produced, struct qc_status *st);
