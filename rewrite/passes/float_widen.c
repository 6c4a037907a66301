// SPDX-License-Identifier: Apache-2.0
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "graph/core/body.h"
#include "rewrite/passes/float_types.h"

/* Types that become float32. */
struct wide {
    bool is[QC_DTYPE_COUNT];
};

static enum qc_dtype widened(const struct wide *w, enum qc_dtype t)
{
    return w->is[t] ? QC_F32 : t;
}

/* Returns true for a multiply-accumulate or recurrent op and, unless heavy, for any op that is quantized with its own
   parameters. */
static bool is_layer(const struct qc_node *n, bool heavy)
{
    const enum qc_affine_behaviour b = qc_node_affine(n);
    return b == QC_AFFINE_PRODUCT || n->op == QC_OP_LSTM || n->op == QC_OP_GRU || n->op == QC_OP_RNN ||
           (b == QC_AFFINE_MERGE && !heavy);
}

/* Finds the types of layers, also in bodies. QC_BODY_DEPTH_MAX bounds the recursion. */
static void find_types(bool layer[QC_DTYPE_COUNT], bool heavy[QC_DTYPE_COUNT], const struct qc_graph *g)
{
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const enum qc_dtype t = g->values[n->outputs].type.dtype;
        layer[t] |= is_layer(n, false);
        heavy[t] |= is_layer(n, true);
        for (unsigned i = 0; i < n->attr_count; i++)
            if (n->attrs[i].kind == QC_ATTR_GRAPH) find_types(layer, heavy, n->attrs[i].graph);
    }
}

static qc_id cast(struct qc_graph *to, qc_id v, enum qc_dtype dtype, struct qc_status *st)
{
    const struct qc_attr attr = QC_INT("to", qc_dtype_info(dtype)->onnx);
    const struct qc_node_def def = {.op = QC_OP_Cast, .input_count = 1, .inputs = &v, .attr_count = 1, .attrs = &attr};
    return to->values[v].type.dtype == dtype ? v : qc_graph_add(to, &def, st);
}

static bool widen_constants(struct qc_rebuild *r, const struct wide *w, struct qc_status *st)
{
    for (qc_id v = 1; v <= r->from->value_count; v++) {
        const struct qc_value *value = &r->from->values[v];
        if (!value->constant || !w->is[value->constant->dtype]) continue;
        struct qc_tensor *t = qc_tensor_to_f32(value->constant, st);
        r->map[v] = t ? qc_graph_add_constant(r->to, value->name, t, st) : 0;
        qc_tensor_unref(t);
        if (!r->map[v]) return false;
    }
    return true;
}

static bool widen_inputs(struct qc_rebuild *r, const struct wide *w, struct qc_status *st)
{
    for (size_t i = 0; i < r->from->input_count; i++) {
        const struct qc_port *p = &r->from->inputs[i];
        const struct qc_type *t = &r->from->values[p->value].type;
        if (!(r->map[p->value] = qc_graph_add_input(r->to, p->name, widened(w, t->dtype), &t->shape, st)) ||
            !qc_port_copy(&r->to->inputs[i], p, r->to->arena, st))
            return false;
    }
    return true;
}

/* Returns true if the attribute names a float element type. */
static bool names_type(const struct qc_attr *a)
{
    static const char *const names[] = {"to", "dtype", "output_dtype", "output_datatype"};
    for (size_t i = 0; a->kind == QC_ATTR_INT && i < sizeof names / sizeof *names; i++)
        if (strcmp(a->name, names[i]) == 0) return true;
    return false;
}

static bool widen_graph(struct qc_graph **out, const struct qc_graph *g, const struct wide *w, struct qc_status *st);

static bool widen_attr(struct qc_attr *a, const struct wide *w, struct qc_status *st)
{
    if (a->kind == QC_ATTR_GRAPH) {
        struct qc_graph *body = NULL;
        if (!widen_graph(&body, a->graph, w, st)) return false;
        a->graph = body;
    } else if (a->kind == QC_ATTR_TENSOR && w->is[a->tensor->dtype]) {
        return (a->tensor = qc_tensor_to_f32(a->tensor, st)) != NULL;
    } else if (names_type(a) && a->i > 0 && a->i < INT_MAX) {
        const enum qc_dtype t = qc_dtype_from_onnx((int)a->i);
        if (w->is[t]) a->i = qc_dtype_info(QC_F32)->onnx;
    }
    return true;
}

/* Frees what widen_attr made. */
static void release(struct qc_attr *attrs, const struct qc_node *n, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        if (attrs[i].kind == QC_ATTR_GRAPH) qc_graph_free((struct qc_graph *)(uintptr_t)attrs[i].graph);
        if (attrs[i].kind == QC_ATTR_TENSOR && attrs[i].tensor != n->attrs[i].tensor)
            qc_tensor_unref((struct qc_tensor *)(uintptr_t)attrs[i].tensor);
    }
    free(attrs);
}

static bool widen_node(struct qc_rebuild *r, qc_id id, const struct wide *w, struct qc_status *st)
{
    const struct qc_node *n = &r->from->nodes[id];
    struct qc_attr *attrs = calloc(n->attr_count + 1u, sizeof *attrs);
    unsigned done = 0;
    bool ok = attrs || qc_fail_memory(st, n->attr_count * sizeof *attrs);
    for (; ok && done < n->attr_count; done += ok) {
        attrs[done] = n->attrs[done];
        ok = widen_attr(&attrs[done], w, st);
    }
    ok = ok && qc_rebuild_node_with(r, id, attrs, st) != 0;
    if (attrs) release(attrs, n, done);
    return ok;
}

/* A Cast between two floats that both become float32 is dropped. */
static bool drop_cast(bool *dropped, struct qc_rebuild *r, const struct qc_node *n, const struct wide *w,
                      struct qc_status *st)
{
    const enum qc_dtype was = r->from->values[n->inputs[0]].type.dtype, is = r->from->values[n->outputs].type.dtype;
    *dropped = n->op == QC_OP_Cast && was != is && widened(w, was) == widened(w, is);
    return !*dropped || (r->map[n->outputs] = qc_rebuild_value(r, n->inputs[0], st)) != 0;
}

/* The kernel of a custom operator supports only its own types. */
static bool keep_types(struct qc_rebuild *r, qc_id id, const struct wide *w, struct qc_status *st)
{
    const struct qc_graph *g = r->from;
    const struct qc_node *n = &g->nodes[id];
    qc_id *before = calloc(n->input_count + 1u, sizeof *before);
    bool ok = before || qc_fail_memory(st, n->input_count * sizeof *before);
    unsigned done = 0;
    for (; ok && done < n->input_count; done++) {
        const qc_id v = n->inputs[done];
        if (!v || !w->is[g->values[v].type.dtype]) continue;
        before[done] = qc_rebuild_value(r, v, st);
        ok = before[done] && (r->map[v] = cast(r->to, before[done], g->values[v].type.dtype, st)) != 0;
    }
    ok = ok && qc_rebuild_node(r, id, st) != 0;
    for (unsigned i = done; i > 0; i--)
        if (before[i - 1]) r->map[n->inputs[i - 1]] = before[i - 1];
    for (unsigned k = 0; ok && k < n->output_count; k++) {
        const qc_id v = n->outputs + k;
        if (w->is[g->values[v].type.dtype]) ok = (r->map[v] = cast(r->to, r->map[v], QC_F32, st)) != 0;
    }
    free(before);
    return ok;
}

/* QC_BODY_DEPTH_MAX bounds the recursion. */
static bool widen_graph(struct qc_graph **out, const struct qc_graph *g, const struct wide *w, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    bool ok = qc_rebuild_begin_bare(&r, g, st) && widen_inputs(&r, w, st) && widen_constants(&r, w, st);
    for (qc_id id = 1; ok && id <= g->node_count; id++) {
        bool dropped = false;
        if (g->nodes[id].op == QC_OP_Custom)
            ok = keep_types(&r, id, w, st);
        else
            ok = drop_cast(&dropped, &r, &g->nodes[id], w, st) && (dropped || widen_node(&r, id, w, st));
    }
    ok = ok && qc_rebuild_finish(out, &r, st);
    qc_rebuild_free(&r);
    return ok;
}

/* Requests the memory of the widened constants; bodies request theirs when they are widened. */
static bool ask_budget(const struct qc_graph *g, const struct wide *w, struct qc_status *st)
{
    size_t bytes = 0;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_tensor *t = qc_constant_of(g, v);
        if (t && w->is[t->dtype] && !qc_add_size(&bytes, bytes, t->count * sizeof(float))) bytes = SIZE_MAX;
    }
    return qc_budget_hold(&g->budget, bytes, st);
}

static bool has_port(const struct qc_graph *g, enum qc_dtype t)
{
    for (size_t i = 0; i < g->input_count; i++)
        if (g->values[g->inputs[i].value].type.dtype == t) return true;
    for (size_t i = 0; i < g->output_count; i++)
        if (g->values[g->outputs[i].value].type.dtype == t) return true;
    return false;
}

bool qc_widen_floats(struct qc_graph **out, const struct qc_graph *g, enum qc_widening what, struct qc_status *st)
{
    bool layer[QC_DTYPE_COUNT] = {false}, heavy[QC_DTYPE_COUNT] = {false};
    struct wide w = {.is = {false}};
    find_types(layer, heavy, g);
    w.is[QC_F16] = w.is[QC_BF16] = layer[QC_F16] || layer[QC_BF16];
    w.is[QC_F64] = heavy[QC_F64] && !heavy[QC_F32];
    if (what == QC_WIDEN_PORTS) {
        w.is[QC_F16] = w.is[QC_BF16] = w.is[QC_F16] || has_port(g, QC_F16) || has_port(g, QC_BF16);
        w.is[QC_F64] = w.is[QC_F64] || has_port(g, QC_F64);
    }
    *out = NULL;
    return (!w.is[QC_F16] && !w.is[QC_F64]) || (ask_budget(g, &w, st) && widen_graph(out, g, &w, st));
}
