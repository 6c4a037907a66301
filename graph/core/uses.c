// SPDX-License-Identifier: Apache-2.0
#include "graph/core/uses.h"

static void put(struct qc_use *use, size_t *next, qc_id v, qc_id node, unsigned input)
{
    if (v) use[next[v]++] = (struct qc_use){.node = node, .input = input};
}

bool qc_uses_of(struct qc_uses *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    return qc_uses_of_first(out, g, g->node_count, a, st);
}

bool qc_uses_of_first(struct qc_uses *out, const struct qc_graph *g, size_t nodes, struct qc_arena *a,
                      struct qc_status *st)
{
    uint32_t *counts = qc_graph_uses(g, a, st);
    size_t *first = QC_NEW_ARRAY(a, size_t, g->value_count + 2, st);
    size_t *next = QC_NEW_ARRAY(a, size_t, g->value_count + 1, st);
    uint32_t *outputs = QC_NEW_ARRAY(a, uint32_t, g->value_count + 1, st);
    if (!counts || !first || !next || !outputs) return false;
    for (qc_id id = (qc_id)nodes + 1; id <= g->node_count; id++)
        for (unsigned i = 0; i < g->nodes[id].input_count; i++)
            if (g->nodes[id].inputs[i]) counts[g->nodes[id].inputs[i]]--;
    for (qc_id v = 1; v <= g->value_count; v++) {
        next[v] = first[v];
        first[v + 1] = first[v] + counts[v];
    }
    struct qc_use *use = QC_NEW_ARRAY(a, struct qc_use, first[g->value_count + 1], st);
    if (!use) return false;
    for (qc_id id = 1; id <= nodes; id++)
        for (unsigned i = 0; i < g->nodes[id].input_count; i++) put(use, next, g->nodes[id].inputs[i], id, i);
    for (size_t i = 0; i < g->output_count; i++) {
        put(use, next, g->outputs[i].value, 0, (unsigned)i);
        outputs[g->outputs[i].value]++;
    }
    *out = (struct qc_uses){.graph = g, .first = first, .use = use, .output_count = outputs};
    return true;
}

qc_id qc_only_reader(const struct qc_uses *u, qc_id v)
{
    const struct qc_use_list l = qc_all_uses(u, v);
    return l.count == 1 ? l.of[0].node : 0;
}
