// SPDX-License-Identifier: Apache-2.0
/* Quantization that a model has already: trained with it, or quantized in part. Its parameters are kept. Its
   QuantizeLinear and DequantizeLinear nodes are removed, and added again by the quantizers with these parameters. */
#pragma once

#include "graph/core/graph.h"

struct qc_given_value {
    const char *name;               /* of the value in the new graph */
    const struct qc_tensor *weight; /* its numbers, each on the grid of the parameters; NULL: an activation */
    struct qc_given parameters;
};

struct qc_given_values {
    size_t count;
    struct qc_given_value *of; /* each value once */
    size_t literal; /* number of QuantizeLinear and DequantizeLinear that stay and whose value has no parameters: scales
                       that are computed, in blocks, or per channel of activations */
};

/* *out: the float graph, without pairs of QuantizeLinear and DequantizeLinear of equal constant float32 parameters and
   with integer weights as real values. *given is valid as long as *out. */
bool qc_take_given(struct qc_graph **out, struct qc_given_values *given, const struct qc_graph *g,
                   struct qc_status *st);

/* Finds the parameters of an activation by its name, of a weight by its numbers. Returns NULL if there are none; values
   may be NULL. */
const struct qc_given *qc_given_of_value(const struct qc_given_values *values, const struct qc_graph *g, qc_id v);
const struct qc_given *qc_given_of_weight(const struct qc_given_values *values, const struct qc_tensor *t);

bool qc_given_same(const struct qc_given *a, const struct qc_given *b); /* NULL equals any */
