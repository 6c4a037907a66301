// SPDX-License-Identifier: Apache-2.0
/* Adapts chosen parameters to the limits of a target (rewrite/language/target.h). */
#pragma once

#include "graph/core/graph.h"
#include "rewrite/language/target.h"

/* Sets the parameters that the target fixes for results of an operator, and the type of symmetric data with negative
   values; then calls qc_keep_runtime_limits if ONNX Runtime runs the file. g: simulated, bound. */
bool qc_keep_target_limits(struct qc_graph *g, const struct qc_target *t, struct qc_status *st);

/* Rounds the biases of accumulators to 8 bits for a target with `bias int8` (qc_short_bias_shift). *out: a copy of g
   with these biases; NULL without such a target or bias. Fails if memory is out. */
bool qc_shorten_biases(struct qc_graph **out, const struct qc_graph *g, const struct qc_target *t,
                       struct qc_status *st);

/* Parameters that kernels of ONNX Runtime reject. QLinearGlobalAveragePool ends a run unless f(sx / f(sy*n)) is in
   [2^-32, 2^8), where n is the number of elements of a plane (onnxruntime/core/mlas/lib/qlgavgpool.cpp). A
   GlobalAveragePool between DequantizeLinear and QuantizeLinear is fused into this operator, too. */

/* Fails (QC_UNSUPPORTED, names the node) if a produced graph has parameters that the kernels reject. */
bool qc_check_runtime_limits(const struct qc_graph *produced, struct qc_status *st);
