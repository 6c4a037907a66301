// SPDX-License-Identifier: Apache-2.0
/* Where the channels of a group lie in a value: element [i0, i1, ...] belongs to channel offset + sum of i_a *
   stride[a]. A value that ops reshape, transpose and cut keeps its channels: the heads of an attention are two axes of
   them. */
#pragma once

#include "graph/core/graph.h"

struct qc_channel_layout {
    int64_t offset;
    int64_t stride[QC_RANK_MAX]; /* by axis; 0: all elements along it are of one channel. Where it is not 0 the size of
                                    the axis is known */
};

/* The axis that the channels of a value lie along, one after the other, when there is no other; else -1. */
int qc_layout_axis(const struct qc_channel_layout *l, int rank);

/* Does the op only move elements, or (MatMul) add up elements of one channel each, so that qc_layout_through may
 * succeed? */
bool qc_layout_moves(enum qc_op op);

/* The layout of output `output` of a node whose input `data` has the layout `in`. False where there is none: channels
   would be mixed, or sizes and bounds are not known. Reshape, Flatten, Squeeze, Unsqueeze, Transpose, Slice, Split,
   Gather at one place, MatMul of two activations. */
bool qc_layout_through(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_graph *g,
                       const struct qc_node *n, unsigned data, unsigned output);

/* marked[c] = true for each channel that a value of this shape has elements of. */
void qc_layout_mark(bool *marked, const struct qc_channel_layout *l, const struct qc_shape *s);
