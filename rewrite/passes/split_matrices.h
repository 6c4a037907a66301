// SPDX-License-Identifier: Apache-2.0
/* Weights of three dimensions, a matrix for each expert of a mixture. A product with them becomes a product for each
   matrix, and a Gather of matrices one of rows (rewrite/rules/functions_experts.rules), so that they are quantized as
   other weights are. The graph has the operators as calls (graph/core/source_call.h): an exporter writes them again if
   none of their parts was quantized. */
#pragma once

#include "graph/core/graph.h"

/* Makes the graph with these operators split. *out is NULL, without an error, if g has none. Fails if memory is out, or
   if a function does not support an operator. */
bool qc_split_matrices(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st);
