// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: operators of the allow-list that compute the same behind a dequantize as on its stored integers. */
#pragma once

#include "rewrite/language/rewriter.h"

/* Returns true if a dequantize moves down through the node without rounding anything: Pad writes zeros and Relu cuts at
   zero, which are levels of all qparams; a bound of Clip, another number of Pad and a float constant that Concat joins
   may lie between two levels. */
bool qc_moves_exactly(const struct qc_rules *rules, const struct qc_graph *g, const struct qc_node *n);
