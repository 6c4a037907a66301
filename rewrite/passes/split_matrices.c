// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/split_matrices.h"

#include "base/scope.h"
#include "graph/core/rebuild.h"
#include "graph/core/source_call.h"
#include "rewrite/language/expansion.h"

/* A matrix for each expert. */
enum { RANK = 3 };

static bool has_matrices(const struct qc_graph *g, const struct qc_node *n)
{
    bool any = false;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *t = qc_constant_of(g, n->inputs[i]);
        any = any || (t && t->shape.rank == RANK);
    }
    return any;
}

/* Returns true if a value of the old or the new graph has the name. */
static bool is_taken(const struct qc_rebuild *r, const char *name)
{
    return qc_graph_find_value(r->from, name) || qc_graph_find_value(r->to, name);
}

/* Names the values after `first` after their nodes: options and statistics refer to them. */
static bool name_parts(struct qc_rebuild *r, size_t first, struct qc_arena *a, struct qc_status *st)
{
    struct qc_graph *to = r->to;
    for (qc_id v = (qc_id)first + 1; v <= to->value_count; v++) {
        const struct qc_node *n = qc_node_of(to, v);
        if (to->values[v].name || !n || !n->name) continue;
        const char *name = n->name;
        for (unsigned k = 1; name && is_taken(r, name); k++) name = qc_arena_printf(a, st, "%s_%u", n->name, k);
        if (!name || !qc_graph_name_value(to, v, name, st)) return false;
    }
    return true;
}

/* *split is false if no function fits the node, which is then not added. */
static bool split(bool *split, struct qc_rebuild *r, const struct qc_node *n, const struct qc_expander *x,
                  struct qc_arena *a, struct qc_status *st)
{
    const bool wanted = true;
    const char *label = qc_node_name(r->from, n, a, st);
    qc_id *inputs = QC_NEW_ARRAY(a, qc_id, n->input_count, st), y = 0;
    if (!label || !inputs) return false;
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && !(inputs[i] = qc_rebuild_value(r, n->inputs[i], st))) return false;
    const size_t before = r->to->value_count;
    const struct qc_call call = {.op = qc_op_info(n->op)->name,
                                 .label = label,
                                 .opset = r->from->opset,
                                 .input_count = n->input_count,
                                 .output_count = 1,
                                 .attr_count = n->attr_count,
                                 .inputs = inputs,
                                 .attrs = n->attrs,
                                 .wanted = &wanted};
    if (!x->expand(&y, split, x->user, r->to, &call, st)) return qc_where(st, "node '%.200s'", label);
    if (!*split) return true;
    const char *name = r->from->values[n->outputs].name;
    r->map[n->outputs] = y;
    return (!name || qc_graph_name_value(r->to, y, name, st)) && name_parts(r, before, a, st) &&
           qc_graph_add_source_call(r->to, &call, &y, st);
}

static bool split_all(struct qc_graph **out, const struct qc_graph *g, const struct qc_expander *x, struct qc_arena *a,
                      struct qc_status *st)
{
    struct qc_rebuild r;
    bool any = false, ok = qc_rebuild_begin(&r, g, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        bool is_split = false;
        if (has_matrices(g, n) && x->knows(x->user, qc_op_info(n->op)->name, g->opset))
            ok = split(&is_split, &r, n, x, a, st);
        any = any || is_split;
    }
    ok = ok && (!any || qc_rebuild_finish(out, &r, st));
    qc_rebuild_free(&r);
    return ok;
}

bool qc_split_matrices(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    bool any = false;
    *out = NULL;
    for (qc_id id = 1; !any && id <= g->node_count; id++) any = has_matrices(g, &g->nodes[id]);
    if (!any) return true;
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_rules *rules = qc_rules_new(st);
    bool ok = rules && (a || qc_fail_memory(st, 1)) && qc_rules_add_builtin(rules, "functions_experts.rules", st);
    const struct qc_expander x = qc_rules_expander(rules);
    ok = ok && split_all(out, g, &x, a, st);
    qc_rules_free(rules);
    return ok;
}
