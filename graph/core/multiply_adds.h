// SPDX-License-Identifier: Apache-2.0
/* The work of convolutions, matrix products and recurrent ops, in multiply-adds. */
#pragma once

#include "graph/core/graph.h"

/* Returns whether op is Conv, ConvTranspose, Gemm, MatMul, RNN, GRU or LSTM. */
bool qc_multiplies(enum qc_op op);

/* Counts the multiply-adds of such a node. RNN, GRU, LSTM: steps times rows of the gates times the size of input and
   state together. ConvTranspose: elements of the input times weights per input channel. Others: elements of the
   result times length of the sum. A free first dimension counts as 1. Returns false if another dimension is free or
   the product overflows. */
bool qc_multiply_adds(uint64_t *out, const struct qc_graph *g, qc_id node);

enum qc_product_kind {
    QC_PRODUCT_INT8,        /* both factors have at most 8 bits */
    QC_PRODUCT_INT8_STORED, /* the same for a runtime whose integer kernels also store 8 bits: a product whose result is
                               stored wider counts as float */
    QC_PRODUCT_INTEGERS,    /* both factors are integers of any width */
    QC_PRODUCT_SMALL_FLOATS, /* in float32, and both factors are floats of at most 8 bits */
    QC_PRODUCT_BLOCKS        /* in float32, and the first factor is rounded in blocks */
};
/* Returns the share, 0 to 1, that products of a kind have of the graph's multiply-adds. Returns NaN if there are none
   or if some counts are unknown. */
double qc_product_share(const struct qc_graph *g, enum qc_product_kind kind);
/* Returns whether the accumulator of a product is stored in more than 8 bits, directly or after further ops on
   accumulators. */
bool qc_is_stored_wide(const struct qc_graph *g, qc_id product);
