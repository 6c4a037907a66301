// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/checked.h"
#include "graph/core/body.h"
#include "graph/core/rebuild.h"
#include "graph/infer/folding.h"
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
        if (!n->inputs[i]) continue;
        qc_id v = r->map[n->inputs[i]];
        if (shape ? !qc_shape_fixed(shape_of(r, n->inputs[i]))
                  : !qc_constant_of(g, n->inputs[i]) && !(v && qc_constant_of(to, v)))
            return false;
    }
    return n->input_count > 0 && !qc_op_is_random(n->op);
}

/* Shape-15 and Size-13 of a value of known shape, constant or not. result: the shape of the node's output. */
static struct qc_tensor *measure(const struct qc_node *n, const struct qc_shape *s, const struct qc_shape *result,
                                 struct qc_status *st)
{
    struct qc_tensor *t = qc_tensor_new(QC_I64, result, st);
    int64_t start = qc_attr_int(n, "start", 0), *to = t ? t->data : NULL;
    if (t && n->op == QC_OP_Size) *to = (int64_t)qc_shape_elements(s);
    if (!t || n->op == QC_OP_Size) return t;
    if (start < 0) start += s->rank;
    if (start < 0) start = 0;
    for (int64_t i = 0; i < result->dim[0] && start + i < s->rank; i++)
        to[i] = s->dim[start + i]; /* the output's shape accounts for "end" */
    return t;
}

/* *out: the sizes that a Gather takes of a partly known shape, such as heads and features of a model with a free batch.
   NULL if one of them is free or n is no such Gather. */
static bool pick_sizes(struct qc_tensor **out, const struct qc_rebuild *r, const struct qc_node *n,
                       struct qc_status *st)
{
    *out = NULL;
    if (n->op != QC_OP_Gather || !r->map[n->inputs[0]]) return true;
    const struct qc_node *shape = qc_node_of(r->to, r->map[n->inputs[0]]);
    const qc_id at = r->map[n->inputs[1]];
    const struct qc_tensor *index = at ? qc_constant_of(r->to, at) : qc_constant_of(r->from, n->inputs[1]);
    if (!shape || shape->op != QC_OP_Shape || !index) return true;
    const struct qc_shape *s = &r->to->values[shape->inputs[0]].type.shape,
                          *taken = &r->to->values[shape->outputs].type.shape;
    int64_t start = qc_attr_int(shape, "start", 0);
    if (s->rank < 0 || taken->rank != 1 || taken->dim[0] == QC_FREE) return true;
    start = start < 0 ? start + s->rank : start;
    start = start < 0 ? 0 : start; /* as in measure() */
    struct qc_tensor *t = qc_tensor_new(QC_I64, &index->shape, st);
    for (size_t i = 0; t && i < index->count; i++) {
        const int64_t k = qc_tensor_int(index, i), from = start + (k < 0 ? k + taken->dim[0] : k);
        ((int64_t *)t->data)[i] =
            from >= start && from < start + taken->dim[0] && from < s->rank ? s->dim[from] : QC_FREE;
        if (((int64_t *)t->data)[i] != QC_FREE) continue;
        qc_tensor_unref(t);
        return true;
    }
    return (*out = t) != NULL;
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

/* Returns the bytes of the constants that a node of constants computes its results from. */
static size_t bytes_read(const struct qc_graph *g, const struct qc_node *n)
{
    size_t sum = 0;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *t = n->inputs[i] ? qc_constant_of(g, n->inputs[i]) : NULL;
        if (t && !qc_add_size(&sum, sum, t->made_from ? t->made_from : t->bytes)) return SIZE_MAX;
    }
    return sum;
}

static bool fold(struct qc_rebuild *r, qc_id old, qc_eval_fn *eval, struct qc_folding *left, struct qc_status *st)
{
    const struct qc_node *n = &r->from->nodes[old];
    qc_id first = qc_rebuild_node(r, old, st);
    bool fits;
    if (!first || !qc_folding_node(&fits, left, r->to, qc_node_of(r->to, first), st)) return false;
    if (!fits) return true;
    struct qc_tensor **results = calloc(n->output_count, sizeof *results);
    if (!results) return qc_fail_memory(st, n->output_count * sizeof *results);
    bool measures = n->op == QC_OP_Shape || n->op == QC_OP_Size;
    bool ok = measures
                  ? (results[0] = measure(n, shape_of(r, n->inputs[0]), &r->to->values[first].type.shape, st)) != NULL
                  : eval(results, r->to, r->to->values[first].node, st);
    const size_t made_from = bytes_read(r->to, qc_node_of(r->to, first));
    for (unsigned k = 0; ok && k < n->output_count; k++) {
        results[k]->made_from = made_from;
        const qc_id v = qc_graph_add_constant(r->to, NULL, results[k], st);
        ok = (r->map[n->outputs + k] = v) != 0;
        /* Not added to the table of names: its first input has the name until unused nodes are dropped
           (share_names). */
        if (ok && !r->to->values[v].name) r->to->values[v].name = name_of(r, n, k);
    }
    for (unsigned k = 0; k < n->output_count; k++) qc_tensor_unref(results[k]);
    free(results);
    return ok;
}

/* Renames a folded constant if the value that it is named after is still in use. */
static bool share_names(struct qc_graph *g, struct qc_status *st)
{
    bool *live = calloc(g->value_count + 1, sizeof *live), ok = true;
    if (!live) return qc_fail_memory(st, g->value_count);
    for (size_t i = 0; i < g->output_count; i++) live[g->outputs[i].value] = true;
    for (size_t id = g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        bool needed = false;
        for (unsigned k = 0; k < n->output_count; k++) needed = needed || live[n->outputs + k];
        for (unsigned i = 0; needed && i < n->input_count; i++) live[n->inputs[i]] = true;
    }
    for (qc_id v = 1; ok && v <= g->value_count; v++) {
        struct qc_value *value = &g->values[v];
        qc_id named = value->constant && value->name ? qc_graph_find_value(g, value->name) : v;
        if (named == v || !named || !live[named] || g->values[named].kind == QC_VALUE_RESULT) continue;
        ok = (value->name = qc_arena_printf(g->arena, st, "%s_folded", value->name)) != NULL;
    }
    free(live);
    return ok;
}

/* Replaces an If with a constant condition by the branch taken. */
static bool take_branch(bool *inlined, struct qc_rebuild *r, const struct qc_node *n, struct qc_status *st)
{
    *inlined = false;
    if (n->op != QC_OP_If) return true;
    for (unsigned i = 0; i < n->input_count; i++)
        if (!qc_rebuild_value(r, n->inputs[i], st)) return false;
    const struct qc_graph *branch = qc_constant_branch(r, n);
    *inlined = branch != NULL;
    return !branch || qc_body_inline(r, n, branch, st);
}

static bool fold_all(struct qc_rebuild *r, const struct qc_graph *g, qc_eval_fn *eval, struct qc_folding *left,
                     struct qc_status *st)
{
    bool ok = qc_rebuild_begin(r, g, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        bool inlined;
        struct qc_tensor *sizes;
        if (!(ok = take_branch(&inlined, r, n, st)) || inlined) continue;
        if (!(ok = pick_sizes(&sizes, r, n, st))) break;
        if (sizes)
            ok = (r->map[n->outputs] = qc_graph_add_constant(r->to, g->values[n->outputs].name, sizes, st)) != 0;
        else
            ok = foldable(r->to, g, r, n) ? fold(r, id, eval, left, st) : qc_rebuild_node(r, id, st) != 0;
        qc_tensor_unref(sizes);
    }
    return ok;
}

bool qc_fold_values(struct qc_rebuild *r, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st)
{
    struct qc_folding left = qc_folding_begin(&g->budget);
    return fold_all(r, g, eval, &left, st);
}

static bool fold_constants_within(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval,
                                  struct qc_folding *left, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    struct qc_graph *folded = NULL;
    bool ok = fold_all(&r, g, eval, left, st) && qc_rebuild_finish(&folded, &r, st);
    qc_rebuild_free(&r);
    if (!ok) return false;
    ok = share_names(folded, st) && qc_graph_copy(out, folded, st); /* drops unused nodes */
    qc_graph_free(folded);
    return ok;
}

bool qc_fold_constants(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st)
{
    struct qc_folding left = qc_folding_begin(&g->budget);
    return fold_constants_within(out, g, eval, &left, st);
}

static bool check_end(struct qc_endless *e, const struct qc_graph *g, const struct qc_rules *rules,
                      struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct qc_matches m;
    bool ok = a ? qc_matches_find(&m, g, rules, QC_RULE_REWRITE, NULL, NULL, a, st) && qc_endless_check(e, &m, g, st)
                : qc_fail_memory(st, 1);
    qc_arena_free(a);
    return ok;
}

bool qc_normalise(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, qc_eval_fn *eval,
                  struct qc_status *st)
{
    struct qc_graph *folded, *rewritten;
    struct qc_endless endless;
    struct qc_folding left = qc_folding_begin(&g->budget);
    size_t applied = 0;
    qc_endless_begin(&endless, g);
    if (!fold_constants_within(&folded, g, eval, &left, st)) return false;
    do {
        bool ok = check_end(&endless, folded, rules, st) && qc_rewrite(&rewritten, &applied, folded, rules, st);
        qc_graph_free(folded);
        if (!ok) return false;
        ok = fold_constants_within(&folded, rewritten, eval, &left, st);
        qc_graph_free(rewritten);
        if (!ok) return false;
    } while (applied);
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
    struct qc_rebuild r = {0};
    struct qc_graph *fixed = NULL;
    const bool ok = with_shapes(&fixed, &r, g, shapes, st) && qc_fold_constants(out, fixed, eval, st);
    qc_rebuild_free(&r);
    qc_graph_free(fixed);
    return ok;
}

bool qc_shapes_of_values(struct qc_shape *of, const struct qc_graph *g, const struct qc_shape *shapes, qc_eval_fn *eval,
                         struct qc_status *st)
{
    struct qc_rebuild r = {0}, folded = {0};
    struct qc_graph *fixed = NULL;
    const bool ok = with_shapes(&fixed, &r, g, shapes, st) && qc_fold_values(&folded, fixed, eval, st);
    for (qc_id v = 1; ok && v <= g->value_count; v++) {
        const qc_id last = folded.map[r.map[v]];
        of[v] = last ? folded.to->values[last].type.shape : g->values[v].type.shape;
    }
    qc_rebuild_free(&folded);
    qc_rebuild_free(&r);
    qc_graph_free(fixed);
    return ok;
}
