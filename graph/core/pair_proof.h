// SPDX-License-Identifier: Apache-2.0
/* Proves from the weights of a quantized graph that x86 without VNNI computes it exactly, whatever the data
   (graph/core/pair_order.h). */
#pragma once

#include "graph/core/graph.h"

struct qc_pair_proof {
    size_t products;   /* multiplications of 8-bit data by int8 weights that may be computed in pairs */
    size_t saturating; /* products with a pair that may overflow 16 bits, or whose int8 operand is not constant */
    size_t unknown;    /* further products whose integers are unknown: a file's DynamicQuantizeLSTM is read with real
                          weights */
    qc_id first;       /* the first saturating product, in the graph given; 0: none, or in a body */
};

/* g: produced, or read from a file and canonical. Its bodies are included. */
void qc_prove_pairs(struct qc_pair_proof *out, const struct qc_graph *g);
