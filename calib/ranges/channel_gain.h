// SPDX-License-Identifier: Apache-2.0
/* What the rounding of a value's channel does to the outputs of the layers behind it. An error of variance v in every
   element of channel c, independent from element to element, adds gain[c] v to the sum of squared errors of those
   layers' outputs, for each element of the channel: the sum of the squared weights that multiply the channel, over
   outputs and kernel positions, by the product of strides, since an element meets one in so many positions of the
   kernel (Nagel et al. 2019, section 4, has the same sum for weights).

   Counted are the layers reached through quantize and dequantize, clamps, functions of one variable (as if their slope
   were 1), pools, Add, Sub, Concat, products with constants and what moves elements; not what lies behind those layers,
   nor through products of two activations, normalisations and softmax. */
#pragma once

#include "graph/core/graph.h"

struct qc_channel_gain {
    int axis;
    size_t channels;
    double *gain; /* [channels], >= 0; NULL: no layer is reached, or there are no channels */
};

/* *out: [value_count + 1], by value of a real or simulated graph, in the arena. Errors: memory. */
bool qc_channel_gains(struct qc_channel_gain **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
