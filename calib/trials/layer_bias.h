// SPDX-License-Identifier: Apache-2.0
/* Biases of layers in a simulated graph: finding them, and a copy of the graph with other biases. */
#pragma once

#include "graph/core/uses.h"

struct qc_layer_bias {
    qc_id layer; /* node with the weight */
    qc_id bias;  /* the constant, float32, without other readers */
    qc_id own;   /* the layer's result with the bias: its own, or that of the Add after a MatMul */
};

/* Returns false if the node is no layer with a weight, if the model gives the weight's parameters, or if there is no
   such bias. */
bool qc_layer_bias_find(struct qc_layer_bias *out, const struct qc_uses *u, qc_id node);
/* Returns the axis of the channels in the layer's result. */
int qc_layer_channel_axis(const struct qc_graph *g, qc_id node);

/* qc_is_conversion: Quantize, Dequantize or Requantize. qc_source_of: the value before all conversions that lead to v.
 */
bool qc_is_conversion(enum qc_op op);
qc_id qc_source_of(const struct qc_graph *g, qc_id v);

struct qc_bias_shift {
    struct qc_layer_bias of;
    const double
        *shift; /* [elements of the bias]: added to it; an element whose sum the accumulator cannot hold stays */
};

/* Makes *out, a copy of g with shifted biases; *changed: number of layers whose bias differs. Fails if memory is out.
 */
bool qc_shift_biases(struct qc_graph **out, size_t *changed, const struct qc_graph *g,
                     const struct qc_bias_shift *shifts, size_t count, struct qc_status *st);
