// SPDX-License-Identifier: Apache-2.0
/* Tied weights: the table of an embedding that is also the matrix of a product. */
#pragma once

#include "graph/core/graph.h"

/* Returns the next node after node `after` (0: the first one) that gathers rows of a constant table with the numbers of
   `matrix`, or of its transpose; 0: there is none. */
qc_id qc_next_tied_table(const struct qc_graph *g, const struct qc_tensor *matrix, qc_id after);
