// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "graph/core/body.h"
#include "graph/infer/folding.h"
#include "simq/plan/plan_parts.h"

bool *qc_plan_needed(const struct qc_graph *g, size_t count, const qc_id *values, struct qc_status *st)
{
    bool *needed = calloc(g->value_count + 1, sizeof *needed), *node = calloc(g->node_count + 1, sizeof *node);
    if (!needed || !node) {
        qc_fail_memory(st, g->value_count + g->node_count + 2);
        free(node);
        free(needed);
        return NULL;
    }
    for (size_t i = 0; i < g->output_count; i++) needed[g->outputs[i].value] = true;
    for (size_t i = 0; i < count; i++) needed[values[i]] = true;
    for (size_t n = g->node_count; n >= 1; n--) {
        for (unsigned i = 0; i < g->nodes[n].output_count; i++) node[n] |= needed[g->nodes[n].outputs + i];
        for (unsigned i = 0; node[n] && i < g->nodes[n].input_count; i++) needed[g->nodes[n].inputs[i]] = true;
    }
    free(needed);
    return node;
}

/* Returns whether the node can be folded. Affine results are left to the next stage, which holds them centred. */
static bool foldable(const struct qc_graph *g, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->output_count; i++)
        if (g->values[n->outputs + i].type.qparams != QC_REAL || !qc_shape_fixed(&g->values[n->outputs + i].type.shape))
            return false;
    const bool shape_only = n->op == QC_OP_Shape || n->op == QC_OP_Size;
    for (unsigned i = 0; i < n->input_count; i++) {
        if (!n->inputs[i]) continue;
        const struct qc_value *v = qc_value(g, n->inputs[i]);
        if (shape_only ? !qc_shape_fixed(&v->type.shape) : v->constant == NULL || v->type.qparams != QC_REAL)
            return false;
    }
    return true;
}

static bool fold(struct qc_rebuild *r, const struct qc_node *old, qc_id first, struct qc_status *st)
{
    struct qc_graph *g = r->to;
    struct qc_view in[QC_PLAN_INPUTS];
    struct qc_tensor *out[QC_PLAN_OUTPUTS] = {NULL};
    const struct qc_node *n = &g->nodes[g->values[first].node];
    bool ok = false;
    for (unsigned i = 0; i < n->input_count; i++) {
        in[i] = QC_VIEW_ABSENT;
        if (!n->inputs[i]) continue;
        const struct qc_value *v = qc_value(g, n->inputs[i]);
        in[i] = qc_view_of(v->type.dtype, &v->type.shape, QC_LAYOUT_ROW, v->constant ? v->constant->data : NULL);
    }
    if (!qc_evaluate_views(out, g, n, in, st)) goto out;
    for (unsigned i = 0; i < old->output_count; i++) {
        qc_id c = qc_graph_add_constant(g, NULL, out[i], st);
        if (!c) goto out;
        r->map[old->outputs + i] = c;
    }
    ok = true;
out:
    for (unsigned i = 0; i < n->output_count; i++) qc_tensor_unref(out[i]);
    return ok;
}

static bool check_size(const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    char label[QC_LABEL], text[QC_SHAPE_TEXT];
    for (unsigned i = 0; i < n->output_count; i++) {
        const struct qc_shape *s = &g->values[n->outputs + i].type.shape;
        size_t count;
        if (!qc_shape_fixed(s)) continue;
        if (!qc_shape_count(&count, s) || count > SIZE_MAX / 64)
            return qc_fail(st, QC_BAD_INPUT, "'%s' of shape %s does not fit in memory",
                           qc_value_label(label, g, n->outputs + i), qc_shape_text(text, s));
    }
    return true;
}

/* State while the shapes of a graph are fixed. */
struct making {
    struct qc_plan *plan;
    qc_id *origin; /* grows with the nodes of the new graph */
    size_t capacity;
};

static bool set_origin(struct making *m, qc_id made, qc_id from, struct qc_status *st)
{
    if (made >= m->capacity) {
        const size_t more = 2 * (size_t)made + 64;
        qc_id *grown = realloc(m->origin, more * sizeof *grown);
        if (!grown) return qc_fail_memory(st, more * sizeof *grown);
        memset(grown + m->capacity, 0, (more - m->capacity) * sizeof *grown);
        m->origin = grown;
        m->capacity = more;
    }
    if (!m->origin[made]) m->origin[made] = from;
    return true;
}

/* Copies a node with its bodies, to which it adds the known shapes and constants. */
static qc_id take_with_bodies(struct qc_rebuild *r, qc_id k, struct qc_status *st)
{
    const struct qc_node *n = &r->from->nodes[k];
    struct qc_attr *attrs = calloc(n->attr_count + 1, sizeof *attrs);
    qc_id first = 0;
    if (!attrs) {
        qc_fail_memory(st, n->attr_count * sizeof *attrs);
        return 0;
    }
    if (qc_bodies_specialise(attrs, r, n, st)) {
        first = qc_rebuild_node_with(r, k, attrs, st);
        qc_bodies_release(attrs, n->attr_count);
    } else {
        qc_where(st, "%s '%s'", qc_op_info(n->op)->name, n->name ? n->name : "");
    }
    free(attrs);
    return first;
}

static bool take_nodes(struct making *m, struct qc_rebuild *r, const bool *needed, qc_id inside, struct qc_status *st);

/* Replaces an If by the branch that it always takes. Recursion is bounded by QC_BODY_DEPTH_MAX. */
static bool take_branch(struct making *m, struct qc_rebuild *r, const struct qc_node *n, const struct qc_graph *branch,
                        qc_id origin, struct qc_status *st)
{
    struct qc_rebuild inner = {.from = branch, .to = r->to, .map = calloc(branch->value_count + 1, sizeof(qc_id))};
    bool *needed = qc_plan_needed(branch, 0, NULL, st);
    bool ok = needed != NULL && (inner.map || qc_fail_memory(st, branch->value_count * sizeof(qc_id)));
    for (size_t i = 0; ok && i < branch->input_count; i++)
        inner.map[branch->inputs[i].value] = r->map[n->inputs[n->input_count - branch->input_count + i]];
    ok = ok && take_nodes(m, &inner, needed, origin, st);
    for (unsigned k = 0; ok && k < n->output_count; k++)
        ok = (r->map[n->outputs + k] = qc_rebuild_value(&inner, branch->outputs[k].value, st)) != 0;
    free(inner.map);
    free(needed);
    return ok;
}

/* inside: the node that the nodes of r->from replace; 0: they are the model's own nodes. */
static bool take_nodes(struct making *m, struct qc_rebuild *r, const bool *needed, qc_id inside, struct qc_status *st)
{
    for (size_t k = 1; k <= r->from->node_count; k++) {
        const struct qc_node *old = &r->from->nodes[k];
        const qc_id origin = inside ? inside : (qc_id)k;
        if (!needed[k]) continue;
        const bool bodies = qc_op_has_bodies(old->op);
        for (unsigned i = 0; bodies && i < old->input_count; i++)
            if (old->inputs[i] && !qc_rebuild_value(r, old->inputs[i], st)) return false;
        /* An observer of bodies must see this branch, too. */
        const struct qc_graph *branch = bodies && !m->plan->watch ? qc_constant_branch(r, old) : NULL;
        if (branch) {
            if (!take_branch(m, r, old, branch, origin, st)) return false;
            continue;
        }
        const qc_id first = bodies ? take_with_bodies(r, (qc_id)k, st) : qc_rebuild_node(r, (qc_id)k, st);
        if (!first) return false;
        const qc_id made = r->to->values[first].node;
        const struct qc_node *n = &r->to->nodes[made];
        bool fits = false;
        if (!set_origin(m, made, origin, st) || !check_size(r->to, n, st) ||
            (foldable(r->to, n) && !qc_folding_node(&fits, &m->plan->folding, r->to, n, st)) ||
            (fits && !fold(r, old, first, st)))
            return false;
    }
    return true;
}

static bool count_inputs(struct qc_plan *p, const struct qc_graph *g, struct qc_status *st)
{
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_value *v = qc_value(g, g->inputs[i].value);
        size_t count, bytes;
        if (!qc_shape_count(&count, &v->type.shape) || !qc_mul_size(&bytes, count, qc_dtype_size(v->type.dtype)) ||
            !qc_add_size(&p->input_bytes, p->input_bytes, bytes))
            return qc_fail(st, QC_BAD_INPUT, "input '%s' does not fit in memory", g->inputs[i].name);
    }
    /* Checked before anything is planned: sizes may overflow. */
    return qc_budget_hold(&g->budget, p->input_bytes, st) || qc_where(st, "inputs");
}

bool qc_plan_specialise(struct qc_plan *p, qc_id *observed, const struct qc_graph *g, const struct qc_shape *shapes,
                        const struct qc_plan_options *o, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    struct making m = {.plan = p};
    struct qc_graph *whole = NULL;
    const size_t count = o ? o->observed_count : 0;
    bool ok = false, *needed = qc_plan_needed(g, count, o ? o->observed : NULL, st);
    if (!needed || !qc_rebuild_begin(&r, g, st)) goto out;
    for (size_t i = 0; i < r.to->input_count; i++)
        if (!qc_graph_fix_input(r.to, i, &shapes[i], st)) goto out;
    if (p->contract != QC_CONTRACT_ONNX) r.to->simulated = false;
    if (o && o->budget) r.to->budget = *o->budget;
    p->folding = qc_folding_begin(&r.to->budget);
    if (!count_inputs(p, r.to, st) || !set_origin(&m, 0, 0, st) || !take_nodes(&m, &r, needed, 0, st)) goto out;
    for (size_t i = 0; i < count; i++)
        if (!(observed[i] = qc_rebuild_value(&r, o->observed[i], st))) goto out;
    if (!qc_rebuild_finish(&whole, &r, st) || !set_origin(&m, (qc_id)whole->node_count, 0, st)) goto out;
    ok = qc_plan_split(p, observed, whole, m.origin, o, st);
out:
    qc_rebuild_free(&r);
    free(m.origin);
    free(needed);
    return ok;
}
