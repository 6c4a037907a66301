// SPDX-License-Identifier: Apache-2.0
/* ONNX Runtime computes some of ONNX's functions only in files of certain opsets. Where other operators need a newer
   one, the file has the definition of the function (rewrite/rules/functions_written.rules). */
#include "base/scope.h"
#include "export/formats/exporter.h"
#include "graph/core/body.h"
#include "graph/core/rebuild.h"
#include "onnx/write/emit.h"
#include "rewrite/language/expansion.h"

struct written {
    struct qc_expander functions;
    int opset; /* of the file */
};

/* Adds the definition of a node, if there is one for its type. *is: there is. */
static bool define(bool *is, struct qc_rebuild *r, const struct qc_node *n, const struct written *w,
                   struct qc_status *st)
{
    const bool wanted = true;
    const char *const op = qc_op_info(n->op)->name, *const name = r->from->values[n->outputs].name;
    *is = false;
    if (!w->functions.knows(w->functions.user, op, w->opset)) return true;
    QC_ARENA_SCOPE *a = qc_arena_new();
    qc_id y = 0, *inputs = a ? QC_NEW_ARRAY(a, qc_id, n->input_count, st) : NULL;
    if (!inputs) return qc_fail_memory(st, n->input_count * sizeof *inputs);
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && !(inputs[i] = qc_rebuild_value(r, n->inputs[i], st))) return false;
    const char *label = qc_node_name(r->from, n, a, st);
    const struct qc_call call = {.op = op,
                                 .label = label,
                                 .opset = w->opset,
                                 .input_count = n->input_count,
                                 .output_count = 1,
                                 .attr_count = n->attr_count,
                                 .inputs = inputs,
                                 .attrs = n->attrs,
                                 .wanted = &wanted};
    if (!label || !w->functions.expand(&y, is, w->functions.user, r->to, &call, st)) return false;
    if (*is) r->map[n->outputs] = y;
    return !*is || !name || qc_graph_name_value(r->to, y, name, st);
}

/* Sets *out to a graph with the definitions; leaves NULL if no operator is a function. */
static bool define_nodes(struct qc_graph **out, const struct qc_graph *g, const struct written *w, struct qc_status *st)
{
    struct qc_rebuild r;
    bool known = false, any = false, is;
    for (qc_id id = 1; id <= g->node_count; id++)
        known = known || w->functions.knows(w->functions.user, qc_op_info(g->nodes[id].op)->name, w->opset);
    if (!known) return true;
    bool ok = qc_rebuild_begin(&r, g, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        ok = define(&is, &r, &g->nodes[id], w, st) && (is || qc_rebuild_value(&r, g->nodes[id].outputs, st));
        any = any || is;
    }
    ok = ok && (!any || qc_rebuild_finish(out, &r, st));
    qc_rebuild_free(&r);
    return ok;
}

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
static bool define_all(struct qc_graph **out, const void *user, const struct qc_graph *g, struct qc_status *st)
{
    struct qc_graph *defined = NULL;
    bool ok = define_nodes(&defined, g, user, st);
    if (ok && g->depth) {
        ok = qc_bodies_replace(out, defined ? defined : g, define_all, user, st);
        qc_graph_free(defined);
    } else if (ok) {
        *out = defined;
    }
    return ok;
}

bool qc_lower_functions(struct qc_graph **io, struct qc_status *st)
{
    struct qc_graph *out = NULL;
    struct qc_rules *rules = qc_rules_new(st);
    const bool ok = rules && qc_rules_add_builtin(rules, "functions_written.rules", st);
    const struct written w = {.functions = qc_rules_expander(rules), .opset = qc_onnx_emit_opset(*io, NULL)};
    const bool done = ok && define_all(&out, &w, *io, st);
    qc_rules_free(rules);
    if (!done) return false;
    if (!out) return true;
    qc_graph_free(*io);
    *io = out;
    return true;
}
