// SPDX-License-Identifier: Apache-2.0
/* Proves of the weights of a quantized graph that x86 without VNNI computes it exactly (graph/core/pair_order.h),
   whatever the data. */
#pragma once

#include "graph/core/graph.h"

struct qc_pair_proof {
    size_t products;   /* multiplications of 8-bit data by int8 weights that may be computed in pairs */
    size_t saturating; /* of which some pair can leave 16 bits, or whose int8 operand comes from the data */
    size_t unknown; /* beside them: their integers are not seen; a file's DynamicQuantizeLSTM is read as real weights */
    qc_id first;    /* the first of those, in the graph that was given; 0: none, or in a body */
};

/* g: produced, or read from a file and canonical, with its bodies. */
void qc_prove_pairs(struct qc_pair_proof *out, const struct qc_graph *g);
