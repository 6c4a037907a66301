// SPDX-License-Identifier: Apache-2.0
#include "graph/core/stored_values.h"

bool qc_stored_values_of(struct qc_stored_values *out, const struct qc_graph *g, struct qc_arena *a,
                         struct qc_status *st)
{
    size_t *first = QC_NEW_ARRAY(a, size_t, g->qparams_count + 2, st);
    size_t *next = QC_NEW_ARRAY(a, size_t, g->qparams_count + 1, st);
    qc_id *value = QC_NEW_ARRAY(a, qc_id, g->value_count, st);
    if (!first || !next || !value) return false;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (g->values[v].type.qparams) first[g->values[v].type.qparams + 1]++;
    for (qc_id s = 1; s <= g->qparams_count; s++) {
        next[s] = first[s];
        first[s + 1] += first[s];
    }
    for (qc_id v = 1; v <= g->value_count; v++)
        if (g->values[v].type.qparams) value[next[g->values[v].type.qparams]++] = v;
    *out = (struct qc_stored_values){.first = first, .value = value};
    return true;
}
