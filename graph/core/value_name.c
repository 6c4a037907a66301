// SPDX-License-Identifier: Apache-2.0
#include "graph/core/value_name.h"

qc_id qc_value_named(const struct qc_graph *g, qc_id v)
{
    qc_id named = v;
    for (const struct qc_node *n = qc_node_of(g, v);
         n && !g->values[named].name && (n->op == QC_OP_Dequantize || n->op == QC_OP_Quantize);
         n = qc_node_of(g, named))
        named = n->inputs[0];
    return named;
}

const char *qc_value_name(const struct qc_graph *g, qc_id v, struct qc_arena *a, struct qc_status *st)
{
    char label[QC_LABEL];
    const char *name = g->values[qc_value_named(g, v)].name;
    return name ? name : qc_arena_strdup(a, qc_value_label(label, g, v), st);
}
