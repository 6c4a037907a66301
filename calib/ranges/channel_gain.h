// SPDX-License-Identifier: Apache-2.0
/* The effect of rounding a value's channel on the outputs of the layers after it. An independent error of variance v
   in each element of channel c adds gain[c] v per element to the sum of squared errors of those outputs. gain[c] is the
   sum of the squared weights that multiply the channel, over outputs and kernel positions, divided by the product of
   strides, since an element meets only that part of the kernel's positions (Nagel et al. 2019, section 4, has the same
   sum for weights).

   Layers are reached through quantize and dequantize, clamps, functions of one variable (as if their slope were 1),
   pools, Add, Sub, Concat, products with constants and data movement. Nothing is counted after those layers, nor
   through products of two activations, normalisations and softmax. */
#pragma once

#include "graph/core/graph.h"

struct qc_channel_gain {
    int axis;
    size_t channels;
    double *gain; /* [channels], >= 0; NULL: no layer is reached, or there are no channels */
};

/* Computes *out: [value_count + 1], by value of a real or simulated graph, in the arena. Fails if memory is out. */
bool qc_channel_gains(struct qc_channel_gain **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
