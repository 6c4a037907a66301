// SPDX-License-Identifier: Apache-2.0
#include "graph/core/parameters.h"

#include "graph/core/graph.h"

struct qc_parameters qc_value_parameters(const struct qc_graph *g, qc_id value)
{
    const struct qc_type *t = &g->values[value].type;
    const struct qc_qparams *s = value ? qc_graph_parameters(g, value) : NULL;
    struct qc_parameters p = {.dtype = value ? t->dtype : QC_NONE, .axis = -1};
    if (!s) return p;
    return (struct qc_parameters){.affine = true,
                                  .stored = true,
                                  .dtype = s->dtype,
                                  .qparams = t->qparams,
                                  .kind = s->kind,
                                  .quantizer = s->name,
                                  .count = s->count,
                                  .scale = s->scale,
                                  .zero_point = s->zero_point,
                                  .axis = s->count > 1 ? t->axis : -1,
                                  .block = s->block,
                                  .levels = qc_qparams_levels(s)};
}

qc_id qc_quantized_constant(const struct qc_graph *g, qc_id value)
{
    const struct qc_node *n = value ? qc_node_of(g, value) : NULL;
    const qc_id from = n && n->op == QC_OP_Quantize ? n->inputs[0] : value;
    return value && g->values[value].type.qparams != QC_REAL && qc_constant_of(g, from) ? from : 0;
}

bool qc_query_of(struct qc_query *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    qc_id *taken = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    if (!taken) return false;
    QC_EACH_NODE(n, g) {
        if (n->op != QC_OP_Quantize && n->op != QC_OP_Requantize) continue;
        qc_id v = n->inputs[0];
        const struct qc_node *from = qc_node_of(g, v);
        if (!taken[v]) taken[v] = n->outputs;
        if (from && from->op == QC_OP_Dequantize && !taken[from->inputs[0]]) taken[from->inputs[0]] = n->outputs;
    }
    *out = (struct qc_query){.graph = g, .taken = taken};
    return true;
}

static struct qc_parameters beside(const struct qc_graph *g, qc_id affine)
{
    struct qc_parameters p = qc_value_parameters(g, affine);
    p.stored = false;
    return p;
}

struct qc_parameters qc_query_taken(const struct qc_query *q, qc_id value)
{
    const struct qc_parameters own = qc_value_parameters(q->graph, value);
    if (!q->taken[value] || (own.affine && own.kind == QC_QPARAMS_QUANTIZER)) return own;
    const struct qc_parameters next = beside(q->graph, q->taken[value]);
    return next.affine ? next : own;
}

struct qc_parameters qc_query_end(const struct qc_query *q, qc_id node, enum qc_end end, unsigned k)
{
    const struct qc_graph *g = q->graph;
    const struct qc_node *n = &g->nodes[node];
    if (end == QC_OUTPUT) return qc_value_parameters(g, n->outputs + k);
    if (end == QC_TAKEN) return qc_query_taken(q, n->outputs + k);
    const qc_id v = n->inputs[k];
    const struct qc_node *from = v ? qc_node_of(g, v) : NULL;
    return from && from->op == QC_OP_Dequantize ? beside(g, from->inputs[0]) : qc_value_parameters(g, v);
}

struct qc_tensor *qc_tensor_of_parameters(const struct qc_graph *g, qc_id v, struct qc_status *st)
{
    const struct qc_tensor *q = g->values[v].constant;
    const struct qc_parameters p = qc_value_parameters(g, v);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &q->shape, st);
    const struct qc_scale_layout layout = qc_scale_layout_of(&g->qparams_of[p.qparams], &q->shape, p.axis);
    for (size_t i = 0; t && i < t->count; i++) {
        const size_t c = qc_scale_at(&layout, i);
        const double level = (double)qc_tensor_int(q, i) - p.zero_point[c];
        ((float *)t->data)[i] = (float)level * p.scale[c];
    }
    return t;
}

static int64_t blocks_of(int64_t size, int64_t block)
{
    return size / block + (size % block != 0);
}

struct qc_scale_layout qc_scale_layout_of(const struct qc_qparams *s, const struct qc_shape *shape, int axis)
{
    struct qc_scale_layout l = {.count = 1, .size = 1, .inner = 1, .blocks = 1};
    if (!s->per_channel || axis < 0 || axis >= shape->rank) return l;
    size_t outer = 1;
    for (int i = 0; i < axis; i++) outer *= (size_t)shape->dim[i];
    for (int i = axis + 1; i < shape->rank; i++) l.inner *= (size_t)shape->dim[i];
    l.size = (size_t)shape->dim[axis];
    l.block = (size_t)s->block;
    if (l.block) l.blocks = (size_t)blocks_of(shape->dim[axis], s->block);
    l.count = l.block ? outer * l.blocks * l.inner : l.size;
    return l;
}

struct qc_shape qc_scale_shape(const struct qc_qparams *s, const struct qc_shape *shape, int axis)
{
    struct qc_shape of = qc_shape_of(1, (const int64_t[]){(int64_t)s->count});
    if (!s->block) return of;
    of = *shape;
    of.dim[axis] = blocks_of(shape->dim[axis], s->block);
    return of;
}
