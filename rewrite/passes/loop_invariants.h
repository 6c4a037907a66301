// SPDX-License-Identifier: Apache-2.0
/* Loop invariants. Some exporters carry the weights of a loop as states that its body returns unchanged. */
#pragma once

#include "graph/core/graph.h"

/* Makes *out, a copy of g in which such states of Loop and Scan, in nested bodies too, are captures, or constants of
   the body if they are constants outside. States that are outputs of their graph stay. NULL: there is none. */
bool qc_hoist_invariants(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st);
