// SPDX-License-Identifier: Apache-2.0
/* Where the channels of a value lie: the axis that layers make them along or read them along. Of real and of simulated
   graphs.

   A convolution, a pool or a batch normalisation makes them along axis 1, Gemm, MatMul with a constant and a layer
   normalisation along the last; ops that keep the shape, or move, cut and join elements hand them on
   (rewrite/passes/channel_layout.h). A value that nothing of that makes has the axis by which its readers read it, the
   first that do. */
#pragma once

#include "graph/core/graph.h"

/* *axes: [value_count + 1], -1 where there is none or where its size is free or 0. Errors: memory. */
bool qc_channel_axes(int **axes, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* The weight of a Conv, ConvTranspose, Gemm or MatMul that is constant, quantized or not; NULL: there is none. */
const struct qc_tensor *qc_layer_constant(const struct qc_graph *g, const struct qc_node *n);

/* Input `data` of a node has its channels along axis `in`: along which axis are they in its result `output`, and *first
   is the channel of the result's channel 0 (of the input's, but for Concat, where it is the place of the input's
   channel 0 in the result). -1: mixed, or not known. Layers do not hand on channels. */
int qc_channel_axis_through(int64_t *first, const struct qc_graph *g, const struct qc_node *n, unsigned data,
                            unsigned output, int in);
