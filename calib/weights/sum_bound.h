// SPDX-License-Identifier: Apache-2.0
/* The largest sums that a layer's accumulator can reach for any data, from the weights, the levels of the input and the
   bias. */
#pragma once

#include "arith/params.h"
#include "graph/core/graph.h"

/* A multiply-accumulate node with constant weights, in a simulated graph with bound quantizers. */
struct qc_sum_layer {
    qc_id node, quantizer;            /* of the weights */
    const struct qc_qparams *qparams; /* of that quantizer */
    const struct qc_tensor *weights;  /* float32 */
    const struct qc_tensor *bias;     /* float32, one per channel, or NULL */
    int axis;        /* axis of the output channels in the weights; -1: no bound (transposed convolution) */
    size_t channels; /* 0 with axis -1 */
    const struct qc_qparams *data; /* of the input: one scale, or one per output channel (depthwise) */
};

/* Returns the axis of the output channels in the weights of a multiply-accumulate node; -1 for a transposed
   convolution. */
int qc_sum_axis(const struct qc_graph *g, const struct qc_node *n);

/* Returns false if the node is no such layer. *out borrows from g. */
bool qc_sum_layer_of(struct qc_sum_layer *out, const struct qc_graph *g, qc_id node);

/* Returns the largest magnitude of any partial sum of a channel, with its terms and the bias added in any order: the
   greater of the sum of all terms that can be positive and that of all that can be negative. weights: stored integers,
   or like l->weights, rounded to nearest with this scale; bias in real units. axis >= 0. */
double qc_sum_bound(const struct qc_sum_layer *l, const struct qc_tensor *weights, float bias, size_t channel,
                    float scale);

/* Computes the sum of all terms that can be positive and, negated, of all that can be negative, without the bias. */
void qc_sum_terms(double *above, double *below, const struct qc_sum_layer *l, const struct qc_tensor *weights,
                  size_t channel, float scale);

/* Returns the scale of the input that a channel reads. */
float qc_sum_data_scale(const struct qc_sum_layer *l, size_t channel);

/* Returns the bias of a channel; 0 without one. */
float qc_sum_bias(const struct qc_sum_layer *l, size_t channel);

/* Returns the largest sum that an accumulator of `bits` bits (2 to 32) holds. */
double qc_sum_limit(unsigned bits);
