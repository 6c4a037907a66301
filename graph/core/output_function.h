// SPDX-License-Identifier: Apache-2.0
/* What becomes of each quantizer: the function of one variable that stands between its values and everything else that
 * reads them. */
#pragma once

#include "graph/core/function.h"
#include "graph/core/uses.h"

/* (*texts)[s], in the arena: the function (as graph/core/function.h prints it) through which alone the values of
   quantizer s of a simulated graph go on, or NULL when there is none: another op or an output reads them too, or what
   is observed is not what is quantized. Ops that only move elements, and quantize and dequantize, count as nothing. It
   is the shortest one that is not linear (behind a factor or a summand errors are what they were before it): of
   LeakyRelu and a Sigmoid behind it the LeakyRelu, of x * Sigmoid(x) the product, of 2 * x and a Tanh behind it the
   Tanh of 2 * x. A quantizer that observes nothing has none. *texts: [qparams_count + 1]. uses: of g. Errors: memory.
 */
bool qc_output_functions(const char ***texts, const struct qc_graph *g, const struct qc_uses *uses, struct qc_arena *a,
                         struct qc_status *st);
