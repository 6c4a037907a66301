// SPDX-License-Identifier: Apache-2.0
/* The work of convolutions and matrix products, in multiply-adds. */
#ifndef QC_GRAPH_CORE_MULTIPLY_ADDS_H
#define QC_GRAPH_CORE_MULTIPLY_ADDS_H

#include "graph/core/graph.h"

/* Of one Conv, ConvTranspose, Gemm or MatMul: elements of the result times length of the sum; ConvTranspose: elements
   of the input times weights per input channel. A free first dimension counts as 1; false where another one is free, or
   the product overflows. */
bool qc_multiply_adds(uint64_t *out, const struct qc_graph *g, qc_id node);

/* The share, 0 to 1, of the graph's multiply-adds whose two factors have at most 8 bits; NaN without any, or when some
 * are not known. */
double qc_int8_share(const struct qc_graph *g);

#endif
