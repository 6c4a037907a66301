// SPDX-License-Identifier: Apache-2.0
/* The values of each set of qparams: an index that is made once of a graph, and asked instead of looking through all of
   its values. It is wrong as soon as the graph gets another value; parameters of quantizers may change. */
#pragma once

#include "graph/core/graph.h"

struct qc_stored_values {
    const size_t *first; /* [qparams_count + 2]: values of qparams s are value[first[s]] to value[first[s + 1] - 1] */
    const qc_id *value;  /* ascending; none of real values */
};

/* Arrays in the arena given. Errors: memory. */
bool qc_stored_values_of(struct qc_stored_values *out, const struct qc_graph *g, struct qc_arena *a,
                         struct qc_status *st);
