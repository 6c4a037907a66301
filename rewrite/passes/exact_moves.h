// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: operators of the allow-list that are exact on stored integers. */
#pragma once

#include "rewrite/language/rewriter.h"

/* Returns true if a dequantize moves down through the node without rounding: Pad writes zeros and Relu cuts at zero,
   which are levels of all qparams. A bound of Clip, another fill value of Pad and a float constant of Concat may lie
   between two levels. */
bool qc_moves_exactly(const struct qc_rules *rules, const struct qc_graph *g, const struct qc_node *n);
