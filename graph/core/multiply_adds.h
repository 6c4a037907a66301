// SPDX-License-Identifier: Apache-2.0
/* The work of convolutions, matrix products and recurrent ops, in multiply-adds. */
#pragma once

#include "graph/core/graph.h"

/* Conv, ConvTranspose, Gemm, MatMul, RNN, GRU, LSTM? */
bool qc_multiplies(enum qc_op op);

/* Of one of them. RNN, GRU, LSTM: steps times rows of the gates times input and state together. Else: elements of the
   result times length of the sum; ConvTranspose: elements of the input times weights per input channel. A free first
   dimension counts as 1; false where another one is free, or the product overflows. */
bool qc_multiply_adds(uint64_t *out, const struct qc_graph *g, qc_id node);

/* The share, 0 to 1, of the graph's multiply-adds whose two factors have at most 8 bits; NaN without any, or when some
 * are not known. */
double qc_int8_share(const struct qc_graph *g);
/* The same with integers of any number of bits. */
double qc_integer_share(const struct qc_graph *g);
/* The same for a runtime whose integer kernels also store 8 bits: what is stored wider behind a product is computed in
   float with it. */
double qc_int8_share_stored(const struct qc_graph *g);
