// SPDX-License-Identifier: Apache-2.0
/* The axis along which the channels of a value lie: the one along which layers make or read them. For real and
   simulated graphs.

   A convolution, a pool or a batch normalisation makes channels along axis 1; Gemm, MatMul with a constant and a layer
   normalisation along the last; those of a cache of keys or values are its heads (graph/core/caches.h). Ops that keep
   the shape, and ops that move, cut and join elements, pass the axis on (rewrite/passes/channel_layout.h). A value
   without such a maker has the axis of its first reader that has one. */
#pragma once

#include "graph/core/graph.h"

/* *axes: [value_count + 1], -1 if a value has none or if its size is free or 0. Fails if memory is out. */
bool qc_channel_axes(int **axes, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Returns the constant weight, quantized or not, of a Conv, ConvTranspose, Gemm or MatMul; NULL if there is none. */
const struct qc_tensor *qc_layer_constant(const struct qc_graph *g, const struct qc_node *n);

/* Returns the axis of the channels in result `output` of a node whose input `data` has them along axis `in`; -1 if they
   are mixed, if the axis is not known, or for layers. *first: the input's channel at the result's channel 0; for
   Concat, the result's channel at the input's channel 0. */
int qc_channel_axis_through(int64_t *first, const struct qc_graph *g, const struct qc_node *n, unsigned data,
                            unsigned output, int in);
