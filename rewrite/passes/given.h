// SPDX-License-Identifier: Apache-2.0
/* Quantization that a model has already: trained with it, or quantized in part. Its parameters are kept; its
   QuantizeLinear and DequantizeLinear nodes go, and come back where the quantizers with these parameters are. */
#pragma once

#include "graph/core/graph.h"

struct qc_given_value {
    const char *name; /* of the value in the graph that is made */
    const struct qc_tensor
        *weight; /* its numbers, each on the grid of the parameters; NULL: a value that is computed */
    struct qc_given parameters;
};

struct qc_given_values {
    size_t count;
    struct qc_given_value *of; /* each value once */
    size_t literal; /* QuantizeLinear and DequantizeLinear that stay as they are: scales that are computed, of blocks or
                       of channels of activations, integers that something else reads */
};

/* The float graph: without pairs of QuantizeLinear and DequantizeLinear of equal constant float32 parameters, with
   weights that were integers as the numbers that they stand for. What is given lives as long as *out. */
bool qc_take_given(struct qc_graph **out, struct qc_given_values *given, const struct qc_graph *g,
                   struct qc_status *st);

/* Of a value that is computed, by its name; of a weight, by its numbers. NULL: none; values may be NULL. */
const struct qc_given *qc_given_of_value(const struct qc_given_values *values, const struct qc_graph *g, qc_id v);
const struct qc_given *qc_given_of_weight(const struct qc_given_values *values, const struct qc_tensor *t);

bool qc_given_same(const struct qc_given *a, const struct qc_given *b); /* NULL is the same as all */
