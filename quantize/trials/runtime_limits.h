// SPDX-License-Identifier: Apache-2.0
/* Parameters that kernels of ONNX Runtime refuse: QLinearGlobalAveragePool, which a GlobalAveragePool between
   DequantizeLinear and QuantizeLinear becomes too, ends a run unless f(sx / f(sy*n)) is in [2^-32, 2^8), where n is the
   number of elements of a plane (onnxruntime/core/mlas/lib/qlgavgpool.cpp). */
#pragma once

#include "graph/core/graph.h"

/* Changes the scales of results in a graph with bound parameters so that they are taken: a mean that is far below its
   values gets a coarser scale, the step of the values over 256 times their number; one that is 0 in every sample gets
   the scale of the values. Parameters that the model had stay. Shapes that are not known pass,
   here and below. */
bool qc_keep_runtime_limits(struct qc_graph *g, struct qc_status *st);

/* Fails (QC_UNSUPPORTED, with the node) if there are such parameters in a produced graph. */
bool qc_check_runtime_limits(const struct qc_graph *produced, struct qc_status *st);
