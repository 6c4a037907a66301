// SPDX-License-Identifier: Apache-2.0
#include "graph/core/verify.h"

#include <float.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "graph/core/body.h"
#include "graph/core/parameters.h"
#include "graph/core/tables.h"

static bool check_shape(const struct qc_shape *s)
{
    if (s->rank < -1 || s->rank > QC_RANK_MAX) return false;
    for (int i = 0; i < s->rank; i++)
        if (s->dim[i] < QC_FREE) return false;
    return true;
}

static bool check_qparams(const struct qc_graph *g, qc_id id, struct qc_status *st)
{
    const struct qc_qparams *s = &g->qparams_of[id];
    const struct qc_dtype_info *t = qc_dtype_info(s->dtype);
    if (!s->name) return qc_fail(st, QC_BAD_INPUT, "has no name");
    if (s->block < 0 || (s->block && !s->per_channel)) return qc_fail(st, QC_BAD_INPUT, "blocks of %" PRId64, s->block);
    if (s->bits == 1 || s->bits > t->bits) return qc_fail(st, QC_BAD_INPUT, "%u bits of %s", s->bits, t->name);
    if (t->lo >= t->hi || s->dtype == QC_BOOL)
        return qc_fail(st, QC_BAD_INPUT, "values cannot be quantized to %s", t->name);
    for (size_t i = 0; i < s->observed_count; i++)
        if (s->observed[i] < 1 || s->observed[i] > g->value_count)
            return qc_fail(st, QC_BAD_INPUT, "observes %%%u, which is not a value", s->observed[i]);
    if (s->state == QC_QPARAMS_BOUND) {
        struct qc_levels levels = qc_qparams_levels(s);
        if (s->count < 1 || (s->count > 1 && !s->per_channel) || !s->scale || !s->zero_point)
            return qc_fail(st, QC_BAD_INPUT, "%zu scales for %s qparams", s->count,
                           s->per_channel ? "per-channel" : "per-tensor");
        for (size_t i = 0; i < s->count; i++) {
            if (!(s->scale[i] >= FLT_MIN && s->scale[i] <= FLT_MAX))
                return qc_fail(st, QC_BAD_INPUT, "scale %g (channel %zu) is not a positive normal number",
                               (double)s->scale[i], i);
            if (s->zero_point[i] < levels.lo || s->zero_point[i] > levels.hi)
                return qc_fail(st, QC_BAD_INPUT,
                               "zero point %" PRId32 " (channel %zu) is outside [%" PRId32 ", %" PRId32 "]",
                               s->zero_point[i], i, levels.lo, levels.hi);
        }
    }
    if (s->kind == QC_QPARAMS_QUANTIZER) return true;
    if (s->a < 1 || s->b < 1 || s->a >= id || s->b >= id)
        return qc_fail(st, QC_BAD_INPUT, "factors @%u and @%u are not earlier qparams", s->a, s->b);
    const struct qc_qparams *a = &g->qparams_of[s->a], *b = &g->qparams_of[s->b];
    if (s->dtype != QC_I32) return qc_fail(st, QC_BAD_INPUT, "accumulator of type %s", qc_dtype_info(s->dtype)->name);
    bool both = a->state == QC_QPARAMS_BOUND && b->state == QC_QPARAMS_BOUND;
    if (both != (s->state == QC_QPARAMS_BOUND))
        return qc_fail(st, QC_BAD_INPUT, "a product must be bound if and only if both of its factors are");
    if (!both) return true;
    for (size_t i = 0; i < s->count; i++) {
        size_t ia = a->count == 1 ? 0 : i, ib = b->count == 1 ? 0 : i;
        if (ia >= a->count || ib >= b->count || s->zero_point[i] != 0 || s->scale[i] != a->scale[ia] * b->scale[ib])
            return qc_fail(st, QC_BAD_INPUT, "parameters of channel %zu are not the product of its factors'", i);
    }
    return true;
}

static bool check_value(const struct qc_graph *g, qc_id id, struct qc_status *st)
{
    const struct qc_value *v = &g->values[id];
    if (v->type.dtype <= QC_NONE || v->type.dtype >= QC_DTYPE_COUNT || !check_shape(&v->type.shape))
        return qc_fail(st, QC_BAD_INPUT, "has no type");
    if (v->name && qc_graph_find_value(g, v->name) != id) return qc_fail(st, QC_BAD_INPUT, "its name is not its own");
    if ((v->kind == QC_VALUE_CONSTANT) != (v->constant != NULL))
        return qc_fail(st, QC_BAD_INPUT, "constant without data, or data without constant");
    const bool held = v->type.qparams != QC_REAL && g->simulated; /* in f32, whatever the stored type */
    if (v->kind == QC_VALUE_CONSTANT &&
        ((held ? QC_F32 : v->constant->dtype) != v->type.dtype || !qc_shape_equal(&v->constant->shape, &v->type.shape)))
        return qc_fail(st, QC_BAD_INPUT, "type and data of the constant differ");
    if (v->kind == QC_VALUE_CONSTANT && v->type.qparams != QC_REAL)
        return qc_graph_check_affine_constant(g, v->constant, v->type.qparams, v->type.axis, st);
    if (v->kind != QC_VALUE_RESULT)
        return v->type.qparams == QC_REAL || qc_fail(st, QC_BAD_INPUT, "an input with qparams");
    if (v->node < 1 || v->node > g->node_count)
        return qc_fail(st, QC_BAD_INPUT, "made by node %u, which does not exist", v->node);
    const struct qc_node *n = &g->nodes[v->node];
    if (v->output >= n->output_count || n->outputs + v->output != id)
        return qc_fail(st, QC_BAD_INPUT, "is not an output of the node it names");
    if (v->type.qparams > g->qparams_count)
        return qc_fail(st, QC_BAD_INPUT, "qparams @%u does not exist", v->type.qparams);
    const struct qc_qparams *s = &g->qparams_of[v->type.qparams];
    if (v->type.qparams == QC_REAL || !s->per_channel || v->type.shape.rank < 0) return true;
    if (v->type.axis < 0 || v->type.axis >= v->type.shape.rank)
        return qc_fail(st, QC_BAD_INPUT, "per-channel axis %d of shape %s", v->type.axis, QC_SHAPE_STR(&v->type.shape));
    if (s->block && !qc_shape_fixed(&v->type.shape))
        return qc_fail(st, QC_BAD_INPUT, "blocks of shape %s", QC_SHAPE_STR(&v->type.shape));
    int64_t channels =
        s->block ? (int64_t)qc_scale_layout_of(s, &v->type.shape, v->type.axis).count : v->type.shape.dim[v->type.axis];
    if (s->state == QC_QPARAMS_BOUND && s->count > 1 && channels != QC_FREE && (uint64_t)channels != s->count)
        return qc_fail(st, QC_BAD_INPUT, "%zu scales for axis %d of shape %s", s->count, v->type.axis,
                       QC_SHAPE_STR(&v->type.shape));
    return true;
}

/* `made`: first value of this node; smaller ids belong to earlier nodes. */
static bool check_node(const struct qc_graph *g, qc_id id, qc_id made, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[id];
    if (n->op <= QC_OP_INVALID || n->op >= QC_OP_COUNT) return qc_fail(st, QC_BAD_INPUT, "is not of a known op");
    const struct qc_op_info *info = qc_op_info(n->op);
    if (n->input_count < info->inputs_min || n->input_count > info->inputs_max || n->output_count < 1 ||
        n->output_count > info->outputs_max)
        return qc_fail(st, QC_BAD_INPUT, "has %u inputs and %u outputs", n->input_count, n->output_count);
    if (n->outputs < made || (size_t)n->outputs + n->output_count > g->value_count + 1)
        return qc_fail(st, QC_BAD_INPUT, "its outputs are not in order");
    for (unsigned i = 0; i < n->input_count; i++) {
        if (i < info->inputs_min && n->inputs[i] == QC_ABSENT)
            return qc_fail(st, QC_BAD_INPUT, "input %u is missing", i);
        if (n->inputs[i] >= n->outputs)
            return qc_fail(st, QC_BAD_INPUT, "input %u (%%%u) is not made before it", i, n->inputs[i]);
    }
    for (unsigned i = 0; i + 1 < n->attr_count; i++)
        if (strcmp(n->attrs[i].name, n->attrs[i + 1].name) >= 0)
            return qc_fail(st, QC_BAD_INPUT, "attribute '%s' is duplicated or out of order", n->attrs[i + 1].name);
    for (unsigned i = 0; i < n->attr_count; i++) {
        const struct qc_attr *a = &n->attrs[i];
        if (a->kind != QC_ATTR_GRAPH) continue;
        if (!qc_op_has_bodies(n->op) || a->graph->depth >= g->depth || g->depth > QC_BODY_DEPTH_MAX)
            return qc_fail(st, QC_BAD_INPUT, "has a body '%s' where there can be none", a->name);
        if (!qc_graph_verify(a->graph, st)) return qc_where(st, "body '%s'", a->name);
    }
    for (unsigned k = 0; k < n->output_count; k++) {
        const struct qc_value *v = &g->values[n->outputs + k];
        if (v->kind != QC_VALUE_RESULT || v->node != id || v->output != k)
            return qc_fail(st, QC_BAD_INPUT, "output %u is another node's", k);
    }
    return true;
}

static bool check_types(const struct qc_graph *g, qc_id id, struct qc_type *types, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[id];
    uint64_t identity = g->tables->node_qparams[id];
    memset(types, 0, n->output_count * sizeof *types);
    if (!qc_node_types(types, g, n, (qc_id)(identity >> 8), (int)(signed char)(identity & 0xff), st)) return false;
    for (unsigned k = 0; k < n->output_count; k++) {
        const struct qc_type *is = &g->values[n->outputs + k].type, *should = &types[k];
        if (is->dtype != should->dtype || !qc_shape_equal(&is->shape, &should->shape) ||
            is->qparams != should->qparams || is->axis != should->axis)
            return qc_fail(st, QC_BAD_INPUT, "output %u is %s%s @%u axis %d, expected %s%s @%u axis %d", k,
                           qc_dtype_info(is->dtype)->name, QC_SHAPE_STR(&is->shape), is->qparams, is->axis,
                           qc_dtype_info(should->dtype)->name, QC_SHAPE_STR(&should->shape), should->qparams,
                           should->axis);
    }
    return true;
}

static bool check_nodes(const struct qc_graph *g, struct qc_status *st)
{
    qc_id made = 1, id = 1;
    unsigned most = 1;
    for (; id <= g->node_count && check_node(g, id, made, st); id++) {
        made = g->nodes[id].outputs + g->nodes[id].output_count;
        if (g->nodes[id].output_count > most) most = g->nodes[id].output_count;
    }
    struct qc_type *types = calloc(most, sizeof *types);
    if (!types) return qc_fail_memory(st, most * sizeof *types);
    if (id > g->node_count)
        for (id = 1; id <= g->node_count && check_types(g, id, types, st);) id++;
    free(types);
    if (id > g->node_count) return true;
    const struct qc_node *n = &g->nodes[id];
    return qc_where(st, "node %u '%s' (%s)", id, n->name ? n->name : QC_VALUE_LABEL(g, n->outputs),
                    qc_op_info(n->op < QC_OP_COUNT ? n->op : QC_OP_INVALID)->name);
}

bool qc_graph_verify(const struct qc_graph *g, struct qc_status *st)
{
    for (qc_id s = 1; s <= g->qparams_count; s++)
        if (!check_qparams(g, s, st))
            return qc_where(st, "qparams @%u '%s'", s, g->qparams_of[s].name ? g->qparams_of[s].name : "");
    for (qc_id v = 1; v <= g->value_count; v++)
        if (!check_value(g, v, st)) return qc_where(st, "value %%%u '%s'", v, QC_VALUE_LABEL(g, v));
    if (!check_nodes(g, st)) return false;
    size_t inputs = 0;
    for (size_t v = 1; v <= g->value_count; v++) inputs += g->values[v].kind == QC_VALUE_INPUT;
    if (inputs != g->input_count)
        return qc_fail(st, QC_BAD_INPUT, "the graph has %zu inputs, but %zu values are inputs", g->input_count, inputs);
    for (size_t i = 0; i < g->input_count; i++) {
        const struct qc_port *p = &g->inputs[i];
        if (!p->name || p->value < 1 || p->value > g->value_count || g->values[p->value].kind != QC_VALUE_INPUT ||
            (i && p->value <= p[-1].value))
            return qc_fail(st, QC_BAD_INPUT, "graph input %zu is %%%u, which is no input or out of order", i, p->value);
    }
    for (size_t i = 0; i < g->output_count; i++) {
        const struct qc_port *p = &g->outputs[i];
        if (!p->name || p->value < 1 || p->value > g->value_count)
            return qc_fail(st, QC_BAD_INPUT, "graph output %zu ('%s') is %%%u, which is not a value", i,
                           p->name ? p->name : "", p->value);
    }
    return true;
}

void qc_graph_count_ops(struct qc_op_counts *out, const struct qc_graph *g)
{
    *out = (struct qc_op_counts){{0}};
    for (size_t n = 1; n <= g->node_count; n++) out->of[g->nodes[n].op]++;
}

/* Counts Gemm and MatMul together: a MatMul becomes a Gemm when it gets a bias. */
static size_t products(const struct qc_op_counts *c, int op)
{
    return op == QC_OP_Gemm || op == QC_OP_MatMul ? c->of[QC_OP_Gemm] + c->of[QC_OP_MatMul] : c->of[op];
}

bool qc_graph_verify_heavy(const struct qc_graph *g, const struct qc_op_counts *before, const char *pass,
                           struct qc_status *st)
{
    struct qc_op_counts now;
    qc_graph_count_ops(&now, g);
    for (int op = 1; op < QC_OP_COUNT; op++) {
        const struct qc_op_info *info = qc_op_info((enum qc_op)op);
        if (info->affine == QC_AFFINE_PRODUCT && now.of[op] > before->of[op] &&
            products(&now, op) > products(before, op))
            return qc_fail(st, QC_BAD_INPUT, "pass '%s' made %zu %s nodes of %zu: a shared node was duplicated", pass,
                           now.of[op], info->name, before->of[op]);
    }
    return true;
}
