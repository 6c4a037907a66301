// SPDX-License-Identifier: Apache-2.0
/* Biases of layers in a simulated graph: where they are, and a graph with others. */
#pragma once

#include "graph/core/uses.h"

struct qc_layer_bias {
    qc_id layer; /* node with the weight */
    qc_id bias;  /* the constant, float32, that nobody else reads */
    qc_id own;   /* the layer's result with the bias: its own, or that of the Add behind a MatMul */
};

/* false: the node is no layer with a weight that was chosen here, or has no such bias. */
bool qc_layer_bias_find(struct qc_layer_bias *out, const struct qc_uses *u, qc_id node);
/* Of the channels of the layer's result. */
int qc_layer_channel_axis(const struct qc_graph *g, qc_id node);

/* Quantize, Dequantize or Requantize; and what a value is a form of, through these. */
bool qc_is_conversion(enum qc_op op);
qc_id qc_source_of(const struct qc_graph *g, qc_id v);

struct qc_bias_shift {
    struct qc_layer_bias of;
    const double
        *shift; /* [elements of the bias]: what is added; where an accumulator could not hold the sum, nothing */
};

/* *out: g with other biases; *changed: of so many layers. Errors: memory. */
bool qc_shift_biases(struct qc_graph **out, size_t *changed, const struct qc_graph *g,
                     const struct qc_bias_shift *shifts, size_t count, struct qc_status *st);
