// SPDX-License-Identifier: Apache-2.0
#include "rewrite/observable.h"

bool qc_observable_values(size_t *count, qc_id **values, const struct qc_graph *g, const struct qc_rules *rules, struct qc_arena *a, struct qc_status *st)
{
    (void)rules;
    *values = QC_NEW_ARRAY(a, qc_id, g->value_count, st);
    *count = 0;
    for (qc_id v = 1; *values && v <= g->value_count; v++)
        if (g->values[v].name && g->values[v].type.dtype == QC_F32 && g->values[v].kind != QC_VALUE_CONSTANT) (*values)[(*count)++] = v;
    return *values != NULL;
}
