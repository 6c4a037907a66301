// SPDX-License-Identifier: Apache-2.0
#include "quantize/setup/setup.h"

#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "graph/core/rebuild.h"

struct ordering {
    const struct qc_graph *g;
    bool *reordered; /* [value_count + 1]: depends on an order of computed values */
    bool *product;   /* the same, through a product, a body or an operator with a state */
    bool *seen;      /* visited from a reordered output */
    qc_id *stack;    /* [value_count + 1] */
    size_t count;    /* on the stack */
    qc_id *found;    /* values that are judged instead */
    size_t found_count;
};

static bool orders(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op != QC_OP_TopK && n->op != QC_OP_NonMaxSuppression && n->op != QC_OP_ArgMax && n->op != QC_OP_ArgMin)
        return false;
    for (unsigned i = 0; i < n->input_count; i++) {
        const qc_id v = n->inputs[i];
        if (v && g->values[v].type.dtype == QC_F32 && qc_node_of(g, v)) return true;
    }
    return false;
}

/* Nodes are in topological order. */
static void follow(struct ordering *o)
{
    for (qc_id id = 1; id <= o->g->node_count; id++) {
        const struct qc_node *n = &o->g->nodes[id];
        bool after = false, product = false;
        for (unsigned i = 0; i < n->input_count; i++) {
            after |= n->inputs[i] && o->reordered[n->inputs[i]];
            product |= n->inputs[i] && o->product[n->inputs[i]];
        }
        product |=
            after && (qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT || n->op == QC_OP_RNN || n->op == QC_OP_GRU ||
                      n->op == QC_OP_LSTM || n->op == QC_OP_If || n->op == QC_OP_Loop || n->op == QC_OP_Scan);
        after |= orders(o->g, n);
        for (unsigned k = 0; k < n->output_count; k++) {
            o->reordered[n->outputs + k] = after;
            o->product[n->outputs + k] = product;
        }
    }
}

static void visit(struct ordering *o, qc_id v)
{
    if (!v || o->seen[v]) return;
    o->seen[v] = true;
    o->stack[o->count++] = v;
}

/* Finds the computed float values that reach an output only through an ordering or beside it. */
static void search(struct ordering *o, qc_id output)
{
    visit(o, output);
    while (o->count) {
        const qc_id v = o->stack[--o->count];
        const struct qc_node *n = qc_node_of(o->g, v);
        if (!n || n->op == QC_OP_Shape || n->op == QC_OP_Size) continue;
        if (!o->reordered[v] && o->g->values[v].type.dtype == QC_F32)
            o->found[o->found_count++] = v;
        else
            for (unsigned i = n->input_count; i-- > 0;) visit(o, n->inputs[i]);
    }
}

static bool is_output(const struct qc_graph *g, qc_id v, const char *name)
{
    for (size_t i = 0; i < g->output_count; i++)
        if (g->outputs[i].value == v || !strcmp(g->outputs[i].name, name)) return true;
    return false;
}

static bool with_found(struct qc_graph **out, const struct ordering *o, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    struct qc_graph *to = NULL;
    bool ok = qc_rebuild_begin(&r, o->g, st);
    QC_FREED qc_id *now = calloc(o->found_count + 1, sizeof *now);
    if (ok && !now) ok = qc_fail_memory(st, o->found_count * sizeof *now);
    for (size_t i = 0; ok && i < o->found_count; i++) ok = (now[i] = qc_rebuild_value(&r, o->found[i], st)) != 0;
    ok = ok && qc_rebuild_finish(&to, &r, st);
    for (size_t i = 0; ok && i < to->output_count; i++) {
        const qc_id v = o->g->outputs[i].value;
        if (o->reordered[v] && !o->product[v]) to->outputs[i].judging = QC_NOT_JUDGED;
    }
    for (size_t i = 0; ok && i < o->found_count; i++) {
        const char *name = o->g->values[o->found[i]].name;
        if (is_output(o->g, o->found[i], name)) continue;
        ok = qc_graph_add_output(to, name, now[i], st);
        if (ok) to->outputs[to->output_count - 1].judging = QC_ONLY_JUDGED;
    }
    qc_rebuild_free(&r);
    return QC_HAND_OVER(ok, out, to, qc_graph_free);
}

bool qc_judge_before_ordering(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const size_t n = g->value_count + 1;
    struct ordering o = {.g = g,
                         .reordered = QC_NEW_ARRAY(a, bool, n, st),
                         .product = QC_NEW_ARRAY(a, bool, n, st),
                         .seen = QC_NEW_ARRAY(a, bool, n, st),
                         .stack = QC_NEW_ARRAY(a, qc_id, n, st),
                         .found = QC_NEW_ARRAY(a, qc_id, n, st)};
    *out = NULL;
    if (!o.reordered || !o.product || !o.seen || !o.stack || !o.found) return false;
    follow(&o);
    for (size_t i = 0; i < g->output_count; i++) {
        const qc_id v = g->outputs[i].value;
        if (o.reordered[v] && !o.product[v]) search(&o, v);
    }
    return !o.found_count || with_found(out, &o, st);
}

bool qc_drop_judged(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st)
{
    size_t kept = 0;
    *out = NULL;
    while (kept < g->output_count && g->outputs[kept].judging != QC_ONLY_JUDGED) kept++;
    if (kept == g->output_count) return true;
    struct qc_graph view = *g;
    view.output_count = kept;
    return qc_graph_copy(out, &view, st);
}
