// SPDX-License-Identifier: Apache-2.0
/* Products with constants in forms that no pattern has: a constant on the left, weights of three dimensions (a matrix
   for each expert of a mixture), vectors, Einsum, Gemm with factors. They become the products and convolutions that are
   quantized as others are (rewrite/rules/functions_products.rules). The graph has the operators as calls
   (graph/core/source_call.h): an exporter writes them again if none of their parts was quantized. */
#pragma once

#include "graph/core/graph.h"

/* Makes the graph with these operators replaced. *out is NULL, without an error, if g has none. Fails if memory is out,
   or if a function does not support an operator. */
bool qc_replace_products(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st);
