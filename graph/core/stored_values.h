// SPDX-License-Identifier: Apache-2.0
/* An index of the values of each set of qparams, made once per graph. It is invalid once a value is added to the
   graph; parameters of quantizers may change. */
#pragma once

#include "graph/core/graph.h"

struct qc_stored_values {
    const size_t *first; /* [qparams_count + 2]: values of qparams s are value[first[s]] to value[first[s + 1] - 1] */
    const qc_id *value;  /* ascending; without real values */
};

/* Arrays are allocated in the arena. Fails if out of memory. */
bool qc_stored_values_of(struct qc_stored_values *out, const struct qc_graph *g, struct qc_arena *a,
                         struct qc_status *st);
