// SPDX-License-Identifier: Apache-2.0
/* Cost of folding a node, and its check against the budget of folding (base/budget.h). */
#pragma once

#include "base/budget.h"
#include "graph/core/graph.h"

/* Gives the bytes of a node's results, and its work: elements read and written, times the size of the window, sum or
   row of weights. SIZE_MAX and UINT64_MAX if a shape is not known or a product overflows. */
void qc_node_cost(size_t *bytes, uint64_t *work, const struct qc_graph *g, const struct qc_node *n);

/* Subtracts the cost of a node from the budget. If the cost exceeds it, *fits is false and the node is not folded.
   Fails with QC_MACHINE, naming the node, if the budget suffices but the memory of the process does not. */
bool qc_folding_node(bool *fits, struct qc_folding *f, const struct qc_graph *g, const struct qc_node *n,
                     struct qc_status *st);
