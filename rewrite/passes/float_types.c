// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/float_types.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "base/scope.h"
#include "graph/core/body.h"
#include "graph/core/qlinear.h"
#include "graph/core/rebuild.h"
#include "rewrite/passes/dynamic.h"

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
static bool computes_layer(const struct qc_node *n, bool heavy)
{
    const enum qc_affine_behaviour b = qc_node_affine(n);
    return b == QC_AFFINE_PRODUCT || n->op == QC_OP_LSTM || n->op == QC_OP_GRU || n->op == QC_OP_RNN ||
           (b == QC_AFFINE_MERGE && !heavy);
}

/* Finds the types of layers, also in bodies. QC_BODY_DEPTH_MAX bounds the recursion. */
static void find_types(bool layer[QC_DTYPE_COUNT], bool heavy[QC_DTYPE_COUNT], const struct qc_graph *g)
{
    QC_EACH_NODE(n, g) {
        const enum qc_dtype t = g->values[n->outputs].type.dtype;
        layer[t] |= computes_layer(n, false);
        heavy[t] |= computes_layer(n, true);
        for (unsigned i = 0; i < n->attr_count; i++)
            if (n->attrs[i].kind == QC_ATTR_GRAPH) find_types(layer, heavy, n->attrs[i].graph);
    }
}

static bool widen_graph(struct qc_graph **out, const struct qc_graph *g, const struct wide *w, struct qc_status *st);

static bool widen_attr(struct qc_attr *a, const struct wide *w, struct qc_status *st)
{
    static const char *const names[] = {"to", "dtype", "output_dtype", "output_datatype"};
    struct qc_graph *body = NULL;
    if (a->kind == QC_ATTR_GRAPH) {
        const bool ok = widen_graph(&body, a->graph, w, st);
        a->graph = body;
        return ok;
    }
    if (a->kind == QC_ATTR_TENSOR && w->is[a->tensor->dtype])
        return (a->tensor = qc_tensor_to_f32(a->tensor, st)) != NULL;
    bool names_type = false; /* an element type */
    for (size_t i = 0; a->kind == QC_ATTR_INT && i < sizeof names / sizeof *names; i++)
        names_type = names_type || strcmp(a->name, names[i]) == 0;
    if (names_type && a->i > 0 && a->i < INT_MAX && w->is[qc_dtype_from_onnx((int)a->i)])
        a->i = qc_dtype_info(QC_F32)->onnx;
    return true;
}

static void widen_node(struct qc_rebuild *r, const struct qc_node *n, const struct wide *w, struct qc_status *st)
{
    QC_FREED struct qc_attr *attrs = calloc(n->attr_count + 1u, sizeof *attrs);
    unsigned done = 0;
    if (!attrs) qc_fail_memory(st, n->attr_count * sizeof *attrs);
    for (bool ok = attrs != NULL; ok && done < n->attr_count; done++) {
        attrs[done] = n->attrs[done];
        ok = widen_attr(&attrs[done], w, st);
    }
    qc_rebuild_node_with(r, n->id, attrs, st);
    for (unsigned i = 0; i < done; i++) { /* frees what widen_attr made */
        if (attrs[i].kind == QC_ATTR_GRAPH) qc_graph_free((struct qc_graph *)(uintptr_t)attrs[i].graph);
        if (attrs[i].kind == QC_ATTR_TENSOR && attrs[i].tensor != n->attrs[i].tensor)
            qc_tensor_unref((struct qc_tensor *)(uintptr_t)attrs[i].tensor);
    }
}

/* A Cast between two floats that both become float32 is dropped: returns true. */
static bool drop_cast(struct qc_rebuild *r, const struct qc_node *n, const struct wide *w, struct qc_status *st)
{
    if (n->op != QC_OP_Cast) return false;
    const enum qc_dtype was = r->from->values[n->inputs[0]].type.dtype, is = r->from->values[n->outputs].type.dtype;
    if (was == is || widened(w, was) != widened(w, is)) return false;
    r->map[n->outputs] = qc_rebuild_value(r, n->inputs[0], st);
    return true;
}

/* The kernel of a custom operator supports only its own types. */
static void keep_types(struct qc_rebuild *r, const struct qc_node *n, const struct wide *w, struct qc_status *st)
{
    const struct qc_graph *g = r->from;
    QC_FREED qc_id *before = calloc(n->input_count + 1u, sizeof *before);
    if (!before) qc_fail_memory(st, n->input_count * sizeof *before);
    for (unsigned i = 0; before && i < n->input_count; i++) {
        const qc_id v = n->inputs[i];
        if (!v || !w->is[g->values[v].type.dtype]) continue;
        before[i] = qc_rebuild_value(r, v, st);
        r->map[v] = qc_graph_cast(r->to, before[i], g->values[v].type.dtype, st);
    }
    qc_rebuild_node(r, n->id, st);
    for (unsigned i = n->input_count; before && i > 0; i--)
        if (before[i - 1]) r->map[n->inputs[i - 1]] = before[i - 1];
    for (unsigned k = 0; k < n->output_count; k++) {
        const qc_id v = n->outputs + k;
        if (w->is[g->values[v].type.dtype]) r->map[v] = qc_graph_cast(r->to, r->map[v], QC_F32, st);
    }
}

/* QC_BODY_DEPTH_MAX bounds the recursion. */
static bool widen_graph(struct qc_graph **out, const struct qc_graph *g, const struct wide *w, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    if (!qc_rebuild_begin_bare(&r, g, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_port *port = &g->inputs[i];
        const struct qc_type *type = &g->values[port->value].type;
        r.map[port->value] = qc_graph_add_input_like(r.to, port, widened(w, type->dtype), &type->shape, st);
    }
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_value *value = &g->values[v];
        if (value->constant && w->is[value->constant->dtype])
            r.map[v] = qc_graph_add_made_constant(r.to, value->name, qc_tensor_to_f32(value->constant, st), st);
    }
    QC_EACH_NODE(n, g) {
        if (n->op == QC_OP_Custom)
            keep_types(&r, n, w, st);
        else if (!drop_cast(&r, n, w, st))
            widen_node(&r, n, w, st);
    }
    return qc_rebuild_finish(out, &r, st);
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
    if (!w.is[QC_F16] && !w.is[QC_F64]) return true;
    size_t bytes = 0; /* of the widened constants; bodies request theirs when they are widened */
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_tensor *t = qc_constant_of(g, v);
        if (t && w.is[t->dtype]) bytes = qc_sum_at_most(bytes, t->count * sizeof(float));
    }
    return qc_budget_hold(&g->budget, bytes, st) && widen_graph(out, g, &w, st);
}

struct narrowing {
    struct qc_rebuild *r;
    const struct qc_graph *own;
    enum qc_dtype most; /* type of values without a name in `own`: that of most results other than float32; float32 if
                           there is none */
};

static bool is_float(enum qc_dtype t)
{
    return t == QC_F32 || t == QC_F16 || t == QC_BF16 || t == QC_F64;
}

/* Returns true for a float32 value that is not quantized and may have another float type. */
static bool is_float_value(const struct narrowing *x, qc_id v)
{
    const struct qc_type *t = v ? &x->r->from->values[v].type : NULL;
    return t && t->dtype == QC_F32 && t->qparams == QC_REAL;
}

static enum qc_dtype own_type(const struct narrowing *x, qc_id v)
{
    const char *name = x->r->from->values[v].name;
    const qc_id was = name ? qc_graph_find_value(x->own, name) : 0;
    return was && is_float(x->own->values[was].type.dtype) ? x->own->values[was].type.dtype : x->most;
}

/* Returns the constant of the original model if passes have not changed it, else NULL. */
static const struct qc_tensor *own_constant(const struct narrowing *x, const struct qc_value *value,
                                            enum qc_dtype dtype, struct qc_status *st)
{
    const qc_id was = value->name ? qc_graph_find_value(x->own, value->name) : 0;
    const struct qc_tensor *t = qc_constant_of(x->own, was);
    if (!t || t->dtype != dtype || !qc_shape_equal(&t->shape, &value->constant->shape)) return NULL;
    struct qc_tensor *wide = qc_tensor_to_f32(t, st);
    const bool same = wide && qc_tensor_equal(wide, value->constant);
    qc_tensor_unref(wide);
    return same ? t : NULL;
}

/* Returns the constant in another type, which the caller owns; NULL: the type cannot hold its numbers, or failure.
 *exact: no number changes. */
static struct qc_tensor *constant_as(bool *exact, const struct narrowing *narrowing, qc_id v, enum qc_dtype dtype,
                                     struct qc_status *st)
{
    const struct qc_value *value = &narrowing->r->from->values[v];
    const struct qc_tensor *own = own_constant(narrowing, value, dtype, st);
    bool fits = true;
    *exact = true;
    if (own) return qc_tensor_ref(own);
    if (st->code != QC_OK) return NULL;
    struct qc_tensor *t = qc_tensor_new(dtype, &value->constant->shape, st);
    const float *x = value->constant->data;
    for (size_t i = 0; t && i < t->count; i++) {
        if (dtype == QC_F64)
            ((double *)t->data)[i] = (double)x[i];
        else
            ((uint16_t *)t->data)[i] = dtype == QC_F16 ? qc_float_to_half(x[i]) : qc_float_to_bfloat(x[i]);
        const double y = qc_tensor_float(t, i);
        if (y == (double)x[i] || isnan(x[i])) continue;
        *exact = false;
        fits = fits && y != 0 && isfinite(y); /* none overflows or becomes 0 */
    }
    if (fits) return t;
    qc_tensor_unref(t);
    return NULL;
}

/* Constants with at most this number of elements stay in float32: a Cast would cost more. */
enum { FEW = 64 };

/* Returns the new value of a real one in the given type. Large float32 constants of a bfloat16 model are stored in
   bfloat16 with a Cast after, if that is exact. */
static qc_id value_as(struct narrowing *x, qc_id v, enum qc_dtype dtype, struct qc_status *st)
{
    const struct qc_value *value = &x->r->from->values[v];
    const bool wide = value->constant && dtype == QC_F32,
               halves = wide && value->constant->count > FEW && own_type(x, v) == QC_BF16;
    bool exact;
    struct qc_tensor *t = halves                     ? constant_as(&exact, x, v, QC_BF16, st)
                          : value->constant && !wide ? constant_as(&exact, x, v, dtype, st)
                                                     : NULL;
    if (t && !wide) return qc_graph_add_made_constant(x->r->to, value->name, t, st);
    const qc_id narrow = t && exact ? qc_graph_add_constant(x->r->to, value->name, t, st) : 0;
    qc_tensor_unref(t);
    if (narrow) return qc_graph_cast(x->r->to, narrow, QC_F32, st);
    const qc_id own = qc_rebuild_value(x->r, v, st);
    return wide ? own : qc_graph_cast(x->r->to, own, dtype, st);
}

static bool only_float32(const struct qc_graph *g, const struct qc_node *n)
{
    static const enum qc_op ops[] = {QC_OP_QuantizeLinear,
                                     QC_OP_DequantizeLinear,
                                     QC_OP_DynamicQuantizeLinear,
                                     QC_OP_NonMaxSuppression,
                                     QC_OP_Table,
                                     QC_OP_Custom,
                                     QC_OP_EyeLike,
                                     QC_OP_ConstantOfShape,
                                     QC_OP_MelWeightMatrix,
                                     QC_OP_RandomNormal,
                                     QC_OP_RandomUniform};
    struct qc_qlinear q;
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++)
        if (n->op == ops[i]) return true;
    for (unsigned i = 0; i < n->input_count; i++)
        if (n->inputs[i] && g->values[n->inputs[i]].type.qparams != QC_REAL) return true;
    for (unsigned k = 0; k < n->output_count; k++)
        if (g->values[n->outputs + k].type.qparams != QC_REAL) return true;
    for (unsigned i = 0; i < n->input_count; i++) { /* an accumulator or an integer weight */
        const struct qc_node *d = n->inputs[i] ? qc_node_of(g, n->inputs[i]) : NULL;
        if (!d || d->op != QC_OP_Dequantize) continue;
        const qc_id qparams = g->values[d->inputs[0]].type.qparams;
        if (qc_constant_of(g, d->inputs[0]) || (qparams && g->qparams_of[qparams].kind == QC_QPARAMS_PRODUCT))
            return true;
    }
    /* Sums of a dynamic product exceed the range of float16. */
    return qc_op_has_bodies(n->op) || qc_qlinear_of(&q, n) || qc_dynamic_part_of(g, n) != QC_DYNAMIC_NOT;
}

/* Returns the type in which the node computes. */
static enum qc_dtype node_type(const struct narrowing *x, const struct qc_node *n, struct qc_status *st)
{
    const struct qc_graph *g = x->r->from;
    enum qc_dtype type = QC_F32;
    bool found = false, exact;
    if (only_float32(g, n)) return type;
    for (unsigned k = 0; !found && k < n->output_count; k++)
        if ((found = is_float_value(x, n->outputs + k))) type = own_type(x, n->outputs + k);
    for (unsigned i = 0; !found && i < n->input_count; i++)
        if ((found = is_float_value(x, n->inputs[i]) && x->r->map[n->inputs[i]]))
            type = x->r->to->values[x->r->map[n->inputs[i]]].type.dtype;
    if (type == QC_BF16) type = QC_F32;
    for (unsigned i = 0; type != QC_F32 && i < n->input_count; i++) {
        if (!is_float_value(x, n->inputs[i]) || !qc_constant_of(g, n->inputs[i])) continue;
        struct qc_tensor *t = constant_as(&exact, x, n->inputs[i], type, st);
        if (!t) type = QC_F32;
        qc_tensor_unref(t);
    }
    return type;
}

static void add_narrow_node(struct narrowing *x, const struct qc_node *n, enum qc_dtype type, struct qc_status *st)
{
    QC_FREED qc_id *before = calloc(n->input_count + 1u, sizeof *before);
    QC_FREED struct qc_attr *attrs = calloc(n->attr_count + 1u, sizeof *attrs);
    if (!before || !attrs) {
        qc_fail_memory(st, n->input_count * sizeof *before);
        return;
    }
    for (unsigned i = 0; i < n->attr_count; i++) {
        attrs[i] = n->attrs[i];
        if (n->op == QC_OP_Cast && strcmp(attrs[i].name, "to") == 0 && is_float_value(x, n->outputs))
            attrs[i].i = qc_dtype_info(type)->onnx;
    }
    for (unsigned i = 0; i < n->input_count; i++) {
        const qc_id v = n->inputs[i];
        if (!is_float_value(x, v)) continue;
        before[i] = x->r->map[v];
        /* scales of Resize are always float32 */
        x->r->map[v] = value_as(x, v, n->op == QC_OP_Resize && i == 2 ? QC_F32 : type, st);
    }
    qc_rebuild_node_with(x->r, n->id, attrs, st);
    for (unsigned i = n->input_count; i > 0; i--)
        if (is_float_value(x, n->inputs[i - 1])) x->r->map[n->inputs[i - 1]] = before[i - 1];
}

/* Drops a Cast between two floats and returns true: each reader casts to the type that it needs. */
static bool narrow_cast(struct narrowing *x, const struct qc_node *n, struct qc_status *st)
{
    if (n->op != QC_OP_Cast) return false;
    const enum qc_dtype from = x->r->from->values[n->inputs[0]].type.dtype,
                        to = x->r->from->values[n->outputs].type.dtype;
    const bool real = is_float_value(x, n->inputs[0]);
    if (from == to || !is_float(from) || !is_float(to) || !(real || is_float_value(x, n->outputs))) return false;
    x->r->map[n->outputs] = real ? value_as(x, n->inputs[0], to, st) : qc_rebuild_value(x->r, n->inputs[0], st);
    return true;
}

static enum qc_dtype port_type(const struct qc_graph *own, const struct qc_port *ports, size_t count, const char *name,
                               enum qc_dtype otherwise)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(ports[i].name, name) == 0 && is_float(own->values[ports[i].value].type.dtype))
            return own->values[ports[i].value].type.dtype;
    return otherwise;
}

bool qc_narrow_floats(struct qc_graph **out, const struct qc_graph *g, const struct qc_graph *own, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    struct narrowing x = {.r = &r, .own = own, .most = QC_F32};
    size_t count[QC_DTYPE_COUNT] = {0};
    for (qc_id v = 1; v <= own->value_count; v++)
        count[own->values[v].type.dtype] += own->values[v].kind != QC_VALUE_INPUT;
    count[QC_F32] = 0;
    for (enum qc_dtype t = QC_NONE; t < QC_DTYPE_COUNT; t++)
        if (is_float(t) && count[t] > count[x.most]) x.most = t;
    if (!qc_rebuild_begin_bare(&r, g, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_port *p = &g->inputs[i];
        const struct qc_type *old = &g->values[p->value].type;
        const enum qc_dtype type =
            is_float_value(&x, p->value) ? port_type(own, own->inputs, own->input_count, p->name, QC_F32) : old->dtype;
        const qc_id v = qc_graph_add_input_like(r.to, p, type, &old->shape, st);
        /* No operator computes in bfloat16. */
        r.map[p->value] = type == QC_BF16 ? qc_graph_cast(r.to, v, QC_F32, st) : v;
    }
    QC_EACH_NODE(n, g)
        if (!narrow_cast(&x, n, st)) add_narrow_node(&x, n, node_type(&x, n, st), st);
    qc_id *values = QC_NEW_ARRAY(r.to->arena, qc_id, g->output_count + 1, st);
    for (size_t i = 0; values && i < g->output_count; i++) {
        const struct qc_port *p = &g->outputs[i];
        const enum qc_dtype type = port_type(own, own->outputs, own->output_count, p->name, QC_F32);
        values[i] =
            is_float_value(&x, p->value) ? value_as(&x, p->value, type, st) : qc_rebuild_value(&r, p->value, st);
    }
    return qc_rebuild_finish_with(out, &r, values, st);
}
