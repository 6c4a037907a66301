// SPDX-License-Identifier: Apache-2.0
/* The place of the channels of a group in a value: element [i0, i1, ...] belongs to channel offset + sum of i_a *
   stride[a]. Reshapes, transposes and slices of a value keep its channels: the heads of an attention are two axes of
   them. */
#pragma once

#include "graph/core/graph.h"

struct qc_channel_layout {
    int64_t offset;
    int64_t stride[QC_RANK_MAX]; /* by axis; 0: all elements along it belong to one channel. Where it is not 0 the size
                                    of the axis is known. */
};

/* Returns the axis along which the channels of a value lie one after the other, or -1 if they lie along several. */
int qc_layout_axis(const struct qc_channel_layout *l, int rank);

/* Returns true if the op only moves elements, or (MatMul) sums elements of one channel each, so that qc_layout_through
   may succeed. */
bool qc_layout_moves(enum qc_op op);

/* *out: the layout of output `output` of a node whose input `data` has the layout `in`. Returns false if channels would
   be mixed, or if sizes or bounds are not known. Supports Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Slice,
   Split, Gather of one element, and MatMul of two activations. */
bool qc_layout_through(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_graph *g,
                       const struct qc_node *n, unsigned data, unsigned output);

/* Sets marked[c] for each channel that has elements in a value of this shape. */
void qc_layout_mark(bool *marked, const struct qc_channel_layout *l, const struct qc_shape *s);

/* The axis along which the channels of a value lie: the one along which layers make or read them. For real and
   simulated graphs.

   A convolution, a pool or a batch normalisation makes channels along axis 1; Gemm, MatMul with a constant and a layer
   normalisation along the last; those of a cache of keys or values are its heads (graph/core/uses.h). Ops that keep
   the shape, and ops that move, cut and join elements, pass the axis on (rewrite/passes/channel_layout.h). A value
   without such a maker has the axis of its first reader that has one. */

/* *axes: [value_count + 1], -1 if a value has none or if its size is free or 0. Fails if memory is out. */
bool qc_channel_axes(int **axes, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Returns the constant weight, quantized or not, of a Conv, ConvTranspose, Gemm or MatMul; NULL if there is none. */
const struct qc_tensor *qc_layer_constant(const struct qc_graph *g, const struct qc_node *n);

/* Returns the axis of the channels in result `output` of a node whose input `data` has them along axis `in`; -1 if they
   are mixed, if the axis is not known, or for layers. *first: the input's channel at the result's channel 0; for
   Concat, the result's channel at the input's channel 0. */
int qc_channel_axis_through(int64_t *first, const struct qc_graph *g, const struct qc_node *n, unsigned data,
                            unsigned output, int in);

/* Returns the float32 constant with elements that a node reads as input i and that is not quantized; NULL: there is
 * none. */
const struct qc_tensor *qc_real_constant(const struct qc_graph *g, const struct qc_node *n, unsigned i);
