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

/* Adds the definition of a node, if there is one for its type. Returns true if there is. */
static bool define(struct qc_rebuild *r, const struct qc_node *n, const struct written *w, struct qc_status *st)
{
    const bool wanted = true;
    const char *const op = qc_op_info(n->op)->name;
    if (!w->functions.knows(w->functions.user, op, w->opset)) return false;
    const struct qc_call call = {.op = op,
                                 .label = qc_node_name(r->from, n, r->to->arena, st),
                                 .opset = w->opset,
                                 .input_count = n->input_count,
                                 .output_count = 1,
                                 .attr_count = n->attr_count,
                                 .inputs = qc_rebuild_inputs(r, n, st),
                                 .attrs = n->attrs,
                                 .wanted = &wanted};
    bool is = false;
    qc_id y = 0;
    if (st->code == QC_OK) w->functions.expand(&y, &is, w->functions.user, r->to, &call, st);
    if (!is) return false;
    r->map[n->outputs] = y;
    qc_graph_name_value(r->to, y, r->from->values[n->outputs].name, st);
    return true;
}

/* Sets *out to a graph with the definitions; leaves NULL if no operator is a function. */
static bool define_nodes(struct qc_graph **out, const struct qc_graph *g, const struct written *w, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    bool known = false, any = false;
    QC_EACH_NODE(n, g) known = known || w->functions.knows(w->functions.user, qc_op_info(n->op)->name, w->opset);
    if (!known) return true;
    if (!qc_rebuild_begin(&r, g, st)) return false;
    QC_EACH_NODE(n, g) {
        if (define(&r, n, w, st))
            any = true;
        else
            qc_rebuild_value(&r, n->outputs, st);
    }
    return any ? qc_rebuild_finish(out, &r, st) : st->code == QC_OK;
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
