// SPDX-License-Identifier: Apache-2.0
/* What it costs to compute a node ahead, and whether that is within what folding may take (base/budget.h). */
#pragma once

#include "base/budget.h"
#include "graph/core/graph.h"

/* Bytes of a node's results, and its work: elements that are read and written, each for as often as a window, a sum or
   a row of weights takes it; SIZE_MAX and UINT64_MAX where a shape is not known or a product overflows. */
void qc_node_cost(size_t *bytes, uint64_t *work, const struct qc_graph *g, const struct qc_node *n);

/* Takes the cost of a node off what is left. *fits: whether it did; a node that does not fit stays one. Errors
   (QC_MACHINE): it fits, but the memory of the process does not allow it; the node is named. */
bool qc_folding_node(bool *fits, struct qc_folding *f, const struct qc_graph *g, const struct qc_node *n,
                     struct qc_status *st);
