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

static void visit(struct ordering *o, qc_id v)
{
    if (!v || o->seen[v]) return;
    o->seen[v] = true;
    o->stack[o->count++] = v;
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
        bool there = false;
        for (size_t k = 0; k < o->g->output_count; k++)
            there = there || o->g->outputs[k].value == o->found[i] || !strcmp(o->g->outputs[k].name, name);
        if (there) continue;
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
    const size_t room = g->value_count + 1;
    struct ordering o = {.g = g,
                         .reordered = QC_NEW_ARRAY(a, bool, room, st),
                         .product = QC_NEW_ARRAY(a, bool, room, st),
                         .seen = QC_NEW_ARRAY(a, bool, room, st),
                         .stack = QC_NEW_ARRAY(a, qc_id, room, st),
                         .found = QC_NEW_ARRAY(a, qc_id, room, st)};
    *out = NULL;
    if (!o.reordered || !o.product || !o.seen || !o.stack || !o.found) return false;
    /* Nodes are in topological order. */
    for (qc_id id = 1; id <= o.g->node_count; id++) {
        const struct qc_node *node = &o.g->nodes[id];
        const bool orders = node->op == QC_OP_TopK || node->op == QC_OP_NonMaxSuppression || node->op == QC_OP_ArgMax ||
                            node->op == QC_OP_ArgMin;
        bool after = false, product = false, ordered = false;
        for (unsigned i = 0; i < node->input_count; i++) {
            after |= node->inputs[i] && o.reordered[node->inputs[i]];
            product |= node->inputs[i] && o.product[node->inputs[i]];
            ordered |= orders && node->inputs[i] && g->values[node->inputs[i]].type.dtype == QC_F32 &&
                       qc_node_of(g, node->inputs[i]);
        }
        product |= after && (qc_op_info(node->op)->affine == QC_AFFINE_PRODUCT || node->op == QC_OP_RNN ||
                             node->op == QC_OP_GRU || node->op == QC_OP_LSTM || node->op == QC_OP_If ||
                             node->op == QC_OP_Loop || node->op == QC_OP_Scan);
        after |= ordered;
        for (unsigned k = 0; k < node->output_count; k++) {
            o.reordered[node->outputs + k] = after;
            o.product[node->outputs + k] = product;
        }
    }
    /* Find the computed float values that reach an output only through an ordering or beside it. */
    for (size_t i = 0; i < g->output_count; i++) {
        if (!o.reordered[g->outputs[i].value] || o.product[g->outputs[i].value]) continue;
        visit(&o, g->outputs[i].value);
        while (o.count) {
            const qc_id v = o.stack[--o.count];
            const struct qc_node *n = qc_node_of(g, v);
            if (!n || n->op == QC_OP_Shape || n->op == QC_OP_Size) continue;
            if (!o.reordered[v] && g->values[v].type.dtype == QC_F32)
                o.found[o.found_count++] = v;
            else
                for (unsigned k = n->input_count; k-- > 0;) visit(&o, n->inputs[k]);
        }
    }
    return !o.found_count || with_found(out, &o, st);
}
