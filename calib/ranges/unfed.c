// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/calibrate.h"

#include "graph/core/data_sizes.h"

/* Returns the value that a quantizer of activations rounds at this node; 0 if the node is none. */
static qc_id rounded_by(const struct qc_graph *g, const struct qc_node *n)
{
    const qc_id s = n->op == QC_OP_Quantize ? g->values[n->outputs].type.qparams : 0;
    if (!s || g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || g->qparams_of[s].is_weight) return 0;
    const qc_id v = qc_value_named(g, n->inputs[0]);
    return qc_constant_of(g, v) ? 0 : v;
}

bool qc_add_sized_values(struct qc_named_values *to, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    const bool *sized = qc_sized_by_data(g, a, st);
    bool *listed = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    if (!sized || !listed) return false;
    for (size_t i = 0; i < to->count; i++) listed[qc_value_named(g, to->ids[i])] = true;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const qc_id v = rounded_by(g, &g->nodes[id]);
        if (!v || listed[v] || !sized[v] || !g->values[v].name) continue;
        listed[v] = true;
        to->ids[to->count] = v;
        to->names[to->count++] = g->values[v].name;
    }
    return true;
}

bool qc_unfed_values(size_t *more, const char ***names, size_t known_count, const char *const *known,
                     const struct qc_graph *g, const struct qc_collection *seen, struct qc_arena *a,
                     struct qc_status *st)
{
    const char **list = QC_NEW_ARRAY(a, const char *, known_count + g->node_count, st);
    *more = 0;
    if (!(*names = list)) return false;
    for (size_t i = 0; i < known_count; i++) list[i] = known[i];
    for (qc_id id = 1; id <= g->node_count; id++) {
        const qc_id v = rounded_by(g, &g->nodes[id]);
        const char *name = v ? g->values[v].name : NULL;
        const struct qc_histogram *h = name ? qc_collection_find(seen, name) : NULL;
        const struct qc_tally *t = h ? &h->tally : NULL;
        if (!t || t->count || t->nan || t->pos_inf || t->neg_inf) continue;
        if (!(list[known_count + (*more)++] = qc_arena_strdup(a, name, st))) return false;
    }
    return true;
}
