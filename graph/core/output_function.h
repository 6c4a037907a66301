// SPDX-License-Identifier: Apache-2.0
/* The output function of each quantizer: the function of one variable between its values and everything else that
   reads them. */
#pragma once

#include "graph/core/function.h"
#include "graph/core/uses.h"

/* (*texts)[s], in the arena: the function, as graph/core/function.h prints it, through which all readers get the
   values of quantizer s of a simulated graph. NULL if there is none: another op or an output reads the values
   directly, an observed value is not the quantized one, or nothing is observed.
   Ops that only move elements, quantize and dequantize do not count. The function is the shortest one that is not
   linear (after a factor or a summand, errors only scale). Examples: for LeakyRelu followed by Sigmoid, the
   LeakyRelu; for x * Sigmoid(x), the product; for 2 * x followed by Tanh, the Tanh of 2 * x.
   *texts: [qparams_count + 1]. uses: of g. Fails only if out of memory. */
bool qc_output_functions(const char ***texts, const struct qc_graph *g, const struct qc_uses *uses, struct qc_arena *a,
                         struct qc_status *st);
