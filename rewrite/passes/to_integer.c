// SPDX-License-Identifier: Apache-2.0
#include "graph/core/rebuild.h"
#include "rewrite/passes/folded_constants.h"

/* Returns true for a Quantize of a real constant into bound qparams. */
static bool is_constant(const struct qc_graph *g, const struct qc_node *n)
{
    return n->op == QC_OP_Quantize && qc_constant_of(g, n->inputs[0]) && qc_graph_parameters(g, n->outputs);
}

static bool fold(struct qc_rebuild *r, struct qc_folded_constants *f, qc_id node, qc_eval_fn *eval,
                 struct qc_status *st)
{
    const struct qc_node *n = &r->from->nodes[node];
    const struct qc_value *v = &r->from->values[n->outputs];
    const char *name = v->name ? v->name : r->from->values[n->inputs[0]].name;
    struct qc_tensor *t = NULL;
    if (!qc_folded_constants_take(&t, f, r->from, node, eval, st)) return false;
    r->map[n->outputs] = qc_graph_add_affine_constant(r->to, name, t, v->type.qparams, v->type.axis, st);
    qc_tensor_unref(t);
    return r->map[n->outputs] != 0;
}

/* Returns [node_count + 1]: the outputs need the node. */
static bool *live_nodes(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    bool *value = QC_NEW_ARRAY(a, bool, g->value_count + 1, st), *live = QC_NEW_ARRAY(a, bool, g->node_count + 1, st);
    if (!value || !live) return NULL;
    for (size_t i = 0; i < g->output_count; i++) value[g->outputs[i].value] = true;
    for (size_t id = g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned k = 0; k < n->output_count; k++) live[id] |= value[n->outputs + k];
        for (unsigned i = 0; live[id] && i < n->input_count; i++) value[n->inputs[i]] = true;
    }
    return live;
}

bool qc_to_integer(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st)
{
    return qc_to_integer_shared(out, NULL, g, eval, st);
}

bool qc_to_integer_shared(struct qc_graph **out, struct qc_folded_constants *f, const struct qc_graph *g,
                          qc_eval_fn *eval, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    struct qc_arena *a = qc_arena_new();
    bool *live = a ? live_nodes(g, a, st) : NULL;
    bool ok = a ? live && qc_rebuild_begin(&r, g, st) : qc_fail_memory(st, 1);
    if (ok) r.to->simulated = false;
    for (qc_id id = 1; ok && id <= g->node_count; id++)
        if (live[id]) ok = is_constant(g, &g->nodes[id]) ? fold(&r, f, id, eval, st) : qc_rebuild_node(&r, id, st) != 0;
    ok = ok && qc_rebuild_finish(out, &r, st);
    qc_rebuild_free(&r);
    qc_arena_free(a);
    return ok;
}
