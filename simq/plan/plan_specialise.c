// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdlib.h>

#include "base/checked.h"
#include "graph/core/rebuild.h"
#include "graph/infer/folding.h"
#include "simq/plan/plan_parts.h"

/* Nodes that outputs and observed values need. */
static bool *mark_needed(const struct qc_graph *g, const struct qc_plan_options *o, struct qc_status *st)
{
    bool *needed = calloc(g->value_count + 1, sizeof *needed), *node = calloc(g->node_count + 1, sizeof *node);
    if (!needed || !node) {
        qc_fail_memory(st, g->value_count + g->node_count + 2);
        free(node);
        free(needed);
        return NULL;
    }
    for (size_t i = 0; i < g->output_count; i++) needed[g->outputs[i].value] = true;
    for (size_t i = 0; o && i < o->observed_count; i++) needed[o->observed[i]] = true;
    for (size_t n = g->node_count; n >= 1; n--) {
        for (unsigned i = 0; i < g->nodes[n].output_count; i++) node[n] |= needed[g->nodes[n].outputs + i];
        for (unsigned i = 0; node[n] && i < g->nodes[n].input_count; i++) needed[g->nodes[n].inputs[i]] = true;
    }
    free(needed);
    return node;
}

static bool fix_inputs(struct qc_graph *to, const struct qc_graph *from, const struct qc_shape *shapes,
                       struct qc_status *st)
{
    char given[QC_SHAPE_TEXT], declared[QC_SHAPE_TEXT];
    for (size_t i = 0; i < to->input_count; i++) {
        struct qc_type *t = &to->values[to->inputs[i].value].type;
        const struct qc_shape *s = &shapes[i];
        bool fits = qc_shape_fixed(s) && (t->shape.rank < 0 || t->shape.rank == s->rank);
        for (int d = 0; fits && d < t->shape.rank; d++)
            fits = t->shape.dim[d] == QC_FREE || t->shape.dim[d] == s->dim[d];
        if (!fits)
            return qc_fail(st, QC_BAD_INPUT, "input '%s' cannot have shape %s: the model declares %s",
                           from->inputs[i].name, qc_shape_text(given, s), qc_shape_text(declared, &t->shape));
        t->shape = *s;
    }
    return true;
}

/* Can the node be evaluated now? What is affine is left to the next stage, which holds it centred. */
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

static bool check_fixed(const struct qc_graph *g, const struct qc_node *n, struct qc_status *st)
{
    char label[QC_LABEL], text[QC_SHAPE_TEXT];
    for (unsigned i = 0; i < n->output_count; i++) {
        const struct qc_shape *s = &g->values[n->outputs + i].type.shape;
        size_t count;
        if (!qc_shape_fixed(s))
            return qc_fail(
                st, QC_UNSUPPORTED,
                "the shape %s of '%s' (%s) depends on data; only shapes that follow from the inputs' are handled",
                qc_shape_text(text, s), qc_value_label(label, g, n->outputs + i), qc_op_info(n->op)->name);
        if (!qc_shape_count(&count, s) || count > SIZE_MAX / 64)
            return qc_fail(st, QC_BAD_INPUT, "'%s' of shape %s does not fit in memory",
                           qc_value_label(label, g, n->outputs + i), qc_shape_text(text, s));
    }
    return true;
}

bool qc_plan_specialise(struct qc_plan *p, qc_id *observed, const struct qc_graph *g, const struct qc_shape *shapes,
                        const struct qc_plan_options *o, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    bool ok = false, *needed = NULL;
    if (!(needed = mark_needed(g, o, st)) || !qc_rebuild_begin(&r, g, st) || !fix_inputs(r.to, g, shapes, st)) goto out;
    if (!(p->origin = QC_NEW_ARRAY(p->arena, qc_id, g->node_count + 1, st))) goto out;
    if (p->contract != QC_CONTRACT_ONNX) r.to->simulated = false;
    if (o && o->budget) r.to->budget = *o->budget;
    p->folding = qc_folding_begin(&r.to->budget);
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_value *v = qc_value(r.to, r.to->inputs[i].value);
        size_t count, bytes;
        if (!qc_shape_count(&count, &v->type.shape) || !qc_mul_size(&bytes, count, qc_dtype_size(v->type.dtype)) ||
            !qc_add_size(&p->input_bytes, p->input_bytes, bytes)) {
            qc_fail(st, QC_BAD_INPUT, "input '%s' does not fit in memory", g->inputs[i].name);
            goto out;
        }
    }
    for (size_t k = 1; k <= g->node_count; k++) {
        if (!needed[k]) continue;
        const struct qc_node *old = &g->nodes[k];
        qc_id first = qc_rebuild_node(&r, (qc_id)k, st);
        if (!first) goto out;
        const qc_id made = r.to->values[first].node;
        const struct qc_node *n = &r.to->nodes[made];
        if (!p->origin[made]) p->origin[made] = (qc_id)k;
        bool fits = false;
        if (!check_fixed(r.to, n, st) || (foldable(r.to, n) && !qc_folding_node(&fits, &p->folding, r.to, n, st)) ||
            (fits && !fold(&r, old, first, st)))
            goto out;
    }
    for (size_t i = 0; o && i < o->observed_count; i++)
        if (!(observed[i] = qc_rebuild_value(&r, o->observed[i], st))) goto out;
    ok = qc_rebuild_finish(&p->graph, &r, st);
out:
    qc_rebuild_free(&r);
    free(needed);
    return ok;
}
