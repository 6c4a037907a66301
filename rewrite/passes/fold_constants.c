// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/checked.h"
#include "base/scope.h"
#include "graph/core/body.h"
#include "graph/core/rebuild.h"
#include "graph/infer/folding.h"
#include "rewrite/passes/loop_invariants.h"
#include "rewrite/passes/simulate.h"
#include "rewrite/passes/unfold.h"

/* Returns the shape of a value: that of the new graph, where sizes that are folded before it are known. */
static const struct qc_shape *shape_of(const struct qc_rebuild *r, qc_id old)
{
    const struct qc_shape *s = r->map[old] ? &r->to->values[r->map[old]].type.shape : NULL;
    return s && qc_shape_fixed(s) ? s : &r->from->values[old].type.shape;
}

static bool foldable(const struct qc_graph *to, const struct qc_graph *g, const struct qc_rebuild *r,
                     const struct qc_node *n)
{
    if (qc_op_is_qdq(n->op)) return false;
    bool shape = n->op == QC_OP_Shape || n->op == QC_OP_Size;
    for (unsigned i = 0; i < n->input_count; i++) {
        if (n->inputs[i] && (shape ? !qc_shape_fixed(shape_of(r, n->inputs[i]))
                                   : !qc_constant_of(g, n->inputs[i]) && !qc_constant_of(to, r->map[n->inputs[i]])))
            return false;
    }
    return n->input_count > 0 && !qc_op_is_random(n->op);
}

/* Returns the sizes that a Gather takes of a partly known shape, such as heads and features of a model with a free
   batch. Returns NULL if one of them is free, n is no such Gather or memory is out. */
static struct qc_tensor *pick_sizes(const struct qc_rebuild *r, const struct qc_node *n, struct qc_status *st)
{
    if (n->op != QC_OP_Gather || !r->map[n->inputs[0]]) return NULL;
    const struct qc_node *shape = qc_node_of(r->to, r->map[n->inputs[0]]);
    const qc_id at = r->map[n->inputs[1]];
    const struct qc_tensor *index = at ? qc_constant_of(r->to, at) : qc_constant_of(r->from, n->inputs[1]);
    if (!shape || shape->op != QC_OP_Shape || !index) return NULL;
    const struct qc_shape *s = &r->to->values[shape->inputs[0]].type.shape,
                          *taken = &r->to->values[shape->outputs].type.shape;
    int64_t start = qc_attr_int(shape, "start", 0);
    if (s->rank < 0 || taken->rank != 1 || taken->dim[0] == QC_FREE) return NULL;
    start = start < 0 ? start + s->rank : start;
    start = start < 0 ? 0 : start; /* as in fold() */
    struct qc_tensor *t = qc_tensor_new(QC_I64, &index->shape, st);
    for (size_t i = 0; t && i < index->count; i++) {
        const int64_t k = qc_tensor_int(index, i), from = start + (k < 0 ? k + taken->dim[0] : k);
        ((int64_t *)t->data)[i] =
            from >= start && from < start + taken->dim[0] && from < s->rank ? s->dim[from] : QC_FREE;
        if (((int64_t *)t->data)[i] != QC_FREE) continue;
        qc_tensor_unref(t);
        return NULL;
    }
    return t;
}

/* Returns the name of a folded value: its own or, for a node that a rule made, that of its first input: a folded weight
   keeps the weight's name. */
static const char *name_of(const struct qc_rebuild *r, const struct qc_node *n, unsigned output)
{
    const char *own = r->from->values[n->outputs + output].name;
    if (own || n->op == QC_OP_Shape || n->op == QC_OP_Size || !n->inputs[0]) return own;
    qc_id first = r->map[n->inputs[0]];
    return first ? r->to->values[first].name : r->from->values[n->inputs[0]].name;
}

static void fold(struct qc_rebuild *r, const struct qc_node *n, qc_eval_fn *eval, struct qc_folding *left,
                 struct qc_status *st)
{
    const qc_id first = qc_rebuild_node(r, n->id, st);
    bool fits;
    if (!first || !qc_folding_node(&fits, left, r->to, qc_node_of(r->to, first), st) || !fits) return;
    struct qc_tensor **results = QC_NEW_ARRAY(r->to->arena, struct qc_tensor *, n->output_count, st);
    if (!results) return;
    if (n->op == QC_OP_Shape || n->op == QC_OP_Size) {
        /* Shape-15 and Size-13 of a value of known shape, constant or not. */
        const struct qc_shape *s = shape_of(r, n->inputs[0]), *of = &r->to->values[first].type.shape;
        results[0] = qc_tensor_new(QC_I64, of, st);
        int64_t start = qc_attr_int(n, "start", 0), *to = results[0] ? results[0]->data : NULL;
        if (to && n->op == QC_OP_Size) *to = (int64_t)qc_shape_elements(s);
        if (start < 0) start += s->rank;
        if (start < 0) start = 0;
        for (int64_t i = 0; to && n->op == QC_OP_Shape && i < of->dim[0] && start + i < s->rank; i++)
            to[i] = s->dim[start + i]; /* the output's shape accounts for "end" */
    } else
        eval(results, r->to, r->to->values[first].node, st);
    const struct qc_node *made = qc_node_of(r->to, first);
    size_t made_from = 0; /* bytes of the constants that it is computed from */
    for (unsigned i = 0; i < made->input_count; i++) {
        const struct qc_tensor *t = made->inputs[i] ? qc_constant_of(r->to, made->inputs[i]) : NULL;
        if (t) made_from = qc_sum_at_most(made_from, t->made_from ? t->made_from : t->bytes);
    }
    for (unsigned k = 0; st->code == QC_OK && k < n->output_count; k++) {
        results[k]->made_from = made_from;
        const qc_id v = r->map[n->outputs + k] = qc_graph_add_constant(r->to, NULL, results[k], st);
        /* Not added to the table of names: its first input has the name until unused nodes are dropped
           (share_names). */
        if (v && !r->to->values[v].name) r->to->values[v].name = name_of(r, n, k);
    }
    for (unsigned k = 0; k < n->output_count; k++) qc_tensor_unref(results[k]);
}

/* Renames a folded constant if the value that it is named after is still in use. */
static bool share_names(struct qc_graph *g, struct qc_status *st)
{
    QC_FREED bool *live = calloc(g->value_count + 1, sizeof *live);
    if (!live) return qc_fail_memory(st, g->value_count);
    for (size_t i = 0; i < g->output_count; i++) live[g->outputs[i].value] = true;
    QC_EACH_NODE_BACK(n, g) {
        bool needed = false;
        for (unsigned k = 0; k < n->output_count; k++) needed = needed || live[n->outputs + k];
        for (unsigned i = 0; needed && i < n->input_count; i++) live[n->inputs[i]] = true;
    }
    for (qc_id v = 1; v <= g->value_count; v++) {
        struct qc_value *value = &g->values[v];
        const qc_id named = value->constant && value->name ? qc_graph_find_value(g, value->name) : v;
        if (named && named != v && live[named] && g->values[named].kind != QC_VALUE_RESULT)
            value->name = qc_arena_printf(g->arena, st, "%s_folded", value->name);
    }
    return st->code == QC_OK;
}

static bool fold_all(struct qc_rebuild *r, const struct qc_graph *g, qc_eval_fn *eval, struct qc_folding *left,
                     struct qc_status *st)
{
    if (!qc_rebuild_begin(r, g, st)) return false;
    QC_EACH_NODE(n, g) {
        if (n->op == QC_OP_If) {
            /* With a constant condition it becomes the branch taken. */
            for (unsigned i = 0; i < n->input_count; i++) qc_rebuild_value(r, n->inputs[i], st);
            const struct qc_graph *branch = qc_constant_branch(r, n);
            if (branch) qc_body_inline(r, n, branch, st);
            if (branch) continue;
        }
        struct qc_tensor *sizes = pick_sizes(r, n, st);
        if (sizes)
            r->map[n->outputs] = qc_graph_add_made_constant(r->to, g->values[n->outputs].name, sizes, st);
        else if (foldable(r->to, g, r, n))
            fold(r, n, eval, left, st);
        else
            qc_rebuild_node(r, n->id, st);
    }
    return st->code == QC_OK;
}

bool qc_fold_values(struct qc_rebuild *r, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st)
{
    struct qc_folding left = qc_folding_begin(&g->budget);
    return fold_all(r, g, eval, &left, st);
}

static bool fold_constants_within(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval,
                                  struct qc_folding *left, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    QC_GRAPH_SCOPE *folded = NULL;
    return fold_all(&r, g, eval, left, st) && qc_rebuild_finish(&folded, &r, st) && share_names(folded, st) &&
           qc_graph_copy(out, folded, st); /* drops unused nodes */
}

bool qc_fold_constants(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st)
{
    struct qc_folding left = qc_folding_begin(&g->budget);
    return fold_constants_within(out, g, eval, &left, st);
}

bool qc_normalise(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, qc_eval_fn *eval,
                  struct qc_status *st)
{
    struct qc_endless endless;
    struct qc_folding left = qc_folding_begin(&g->budget);
    struct qc_graph *folded;
    QC_GRAPH_SCOPE *hoisted = NULL;
    qc_endless_begin(&endless, g);
    if (!qc_hoist_invariants(&hoisted, g, st) ||
        !fold_constants_within(&folded, hoisted ? hoisted : g, eval, &left, st))
        return false;
    for (size_t applied = 1; applied;) {
        QC_GRAPH_SCOPE *rewritten = NULL;
        QC_ARENA_SCOPE *a = qc_arena_new();
        struct qc_matches m;
        const bool ok = qc_matches_find(&m, folded, rules, QC_RULE_REWRITE, NULL, NULL, a, st) &&
                        qc_endless_check(&endless, &m, folded, st) &&
                        qc_rewrite(&rewritten, &applied, folded, rules, st);
        qc_graph_free(folded);
        if (!ok || !fold_constants_within(&folded, rewritten, eval, &left, st)) return false;
    }
    *out = folded;
    return true;
}

/* Makes g with inputs of fixed shapes. r: free; maps its values, if outputs need them. */
static bool with_shapes(struct qc_graph **out, struct qc_rebuild *r, const struct qc_graph *g,
                        const struct qc_shape *shapes, struct qc_status *st)
{
    bool ok = qc_rebuild_begin(r, g, st);
    for (size_t i = 0; ok && i < g->input_count; i++) ok = qc_graph_fix_input(r->to, i, &shapes[i], st);
    return ok && qc_rebuild_finish(out, r, st);
}

bool qc_fix_shapes(struct qc_graph **out, const struct qc_graph *g, const struct qc_shape *shapes, qc_eval_fn *eval,
                   struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    QC_GRAPH_SCOPE *fixed = NULL;
    return with_shapes(&fixed, &r, g, shapes, st) && qc_fold_constants(out, fixed, eval, st);
}

bool qc_shapes_of_values(struct qc_shape *of, const struct qc_graph *g, const struct qc_shape *shapes, qc_eval_fn *eval,
                         struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0}, folded = {0};
    QC_GRAPH_SCOPE *fixed = NULL;
    if (!with_shapes(&fixed, &r, g, shapes, st) || !qc_fold_values(&folded, fixed, eval, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const qc_id last = folded.map[r.map[v]];
        of[v] = last ? folded.to->values[last].type.shape : g->values[v].type.shape;
    }
    return true;
}
