// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/partition_tables.h"

#include <string.h>

#include "rewrite/passes/partition_types.h"

void qc_partition_drop(struct qc_partition *p, qc_id node)
{
    struct qc_match *m = p->matches.at[node];
    for (unsigned i = 0; i < m->node_count; i++) p->matches.live[m->nodes[i]] = true;
    p->matches.at[node] = NULL;
    p->matches.count--;
}

bool qc_tables_fit(struct qc_partition *p, const struct qc_match *m)
{
    enum { SHARE = 8 };
    const struct qc_graph *g = p->graph;
    const struct qc_node *n = &g->nodes[m->nodes[0]];
    if (!g->budget.memory_limit || !qc_types_is_table(p, m)) return true;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *t = qc_constant_of(g, n->inputs[i]);
        if (!t || t->bytes <= g->budget.memory_limit / SHARE) continue;
        p->reason[m->nodes[0]] = "--memory-limit leaves no room to make integers of it";
        return false;
    }
    return true;
}

bool qc_tables_drop_stored(struct qc_partition *p, const struct qc_rules *rules, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    bool *stored = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st);
    if (!stored) return false;
    memcpy(stored, p->requested, g->value_count + 1);
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        if (p->matches.at[id] && stored[n->outputs] && qc_types_is_table(p, p->matches.at[id]))
            qc_partition_drop(p, id);
        if (p->matches.at[id] || qc_rules_behaviour(rules, g, n) != QC_AFFINE_KEEP) continue;
        for (unsigned k = 0; k < n->output_count; k++) stored[n->inputs[0]] |= stored[n->outputs + k];
    }
    return true;
}

/* Smaller ones are not worth a word. */
enum { LARGE = 4096 };

bool qc_tables_note_float(struct qc_partition *p, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    bool *stored = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st); /* by class */
    if (!stored) return false;
    for (qc_id v = 1; v <= g->value_count; v++) stored[p->class_of[v]] |= p->requested[v];
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const struct qc_tensor *t = n->op == QC_OP_Gather ? qc_constant_of(g, n->inputs[0]) : NULL;
        if (!t || t->dtype != QC_F32 || t->count < LARGE || p->matches.at[id] || stored[p->class_of[n->outputs]])
            continue;
        p->reason[id] =
            qc_arena_printf(p->arena, st, "%s; its table takes %.2f MB",
                            p->reason[id] ? p->reason[id]
                                          : "only rows, of 16 elements or more, of a matrix are taken as integers",
                            (double)t->bytes / 1e6);
        if (!p->reason[id]) return false;
    }
    return true;
}
