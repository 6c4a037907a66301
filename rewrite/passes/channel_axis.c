// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/channel_axis.h"

#include "graph/core/caches.h"
#include "rewrite/passes/channel_layout.h"

enum { NONE = -1 };

const struct qc_tensor *qc_layer_constant(const struct qc_graph *g, const struct qc_node *n)
{
    if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT) return NULL;
    const struct qc_node *q = qc_node_of(g, n->inputs[1]);
    const struct qc_tensor *t = qc_constant_of(g, q && q->op == QC_OP_Quantize ? q->inputs[0] : n->inputs[1]);
    return t && t->dtype == QC_F32 && t->count ? t : NULL;
}

static bool is_data(const struct qc_graph *g, qc_id v)
{
    return v && g->values[v].type.dtype == QC_F32 && g->values[v].type.shape.rank > 1;
}

/* Returns the axis along which a node makes new channels, or -1. */
static int made(const struct qc_graph *g, const struct qc_node *n)
{
    const int rank = g->values[n->outputs].type.shape.rank;
    if (n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose || n->op == QC_OP_BatchNormalization ||
        n->op == QC_OP_InstanceNormalization || n->op == QC_OP_MaxPool || n->op == QC_OP_AveragePool ||
        n->op == QC_OP_GlobalAveragePool || n->op == QC_OP_GlobalMaxPool || n->op == QC_OP_DepthToSpace ||
        n->op == QC_OP_SpaceToDepth)
        return 1;
    if (n->op == QC_OP_Gemm || n->op == QC_OP_LayerNormalization || (n->op == QC_OP_MatMul && qc_layer_constant(g, n)))
        return rank - 1;
    return NONE;
}

/* Returns the axis along which a node reads channels of its first input, or -1. */
static int read(const struct qc_graph *g, const struct qc_node *n)
{
    const int rank = g->values[n->inputs[0]].type.shape.rank;
    if (n->op == QC_OP_Gemm) return qc_attr_int(n, "transA", 0) ? 0 : rank - 1;
    if (n->op == QC_OP_MatMul) return qc_layer_constant(g, n) ? rank - 1 : NONE;
    return n->op == QC_OP_Reshape || n->op == QC_OP_Flatten ? NONE : made(g, n);
}

/* Reductions: the position of a kept axis after the reduced axes in front of it are gone. */
static int reduced(const struct qc_graph *g, const struct qc_node *n, int in)
{
    const int64_t *axes;
    const size_t count = qc_attr_ints(n, "axes", &axes);
    const int rank = g->values[n->inputs[0]].type.shape.rank;
    int out = in;
    if (!count) return NONE;
    for (size_t i = 0; i < count; i++) {
        const int axis = (int)(axes[i] < 0 ? axes[i] + rank : axes[i]);
        if (axis == in) return NONE;
        if (axis < in && !qc_attr_int(n, "keepdims", 1)) out--;
    }
    return out;
}

static bool reduces(enum qc_op op)
{
    return op == QC_OP_ReduceMean || op == QC_OP_ReduceSum || op == QC_OP_ReduceMax || op == QC_OP_ReduceMin;
}

int qc_channel_axis_through(int64_t *first, const struct qc_graph *g, const struct qc_node *n, unsigned data,
                            unsigned output, int in)
{
    const struct qc_shape *x = &g->values[n->inputs[data]].type.shape, *y = &g->values[n->outputs + output].type.shape;
    *first = 0;
    if (!is_data(g, n->inputs[data]) || !is_data(g, n->outputs + output) || in < 0 || in >= x->rank) return NONE;
    if (qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT) return NONE;
    if (qc_layout_moves(n->op)) {
        struct qc_channel_layout from = {.stride = {0}}, to;
        if (data) return NONE;
        from.stride[in] = 1;
        if (!qc_layout_through(&to, &from, g, n, data, output)) return NONE;
        *first = to.offset;
        return qc_layout_axis(&to, y->rank);
    }
    if (reduces(n->op)) return data ? NONE : reduced(g, n, in);
    if (n->op == QC_OP_DepthToSpace || n->op == QC_OP_SpaceToDepth || x->rank != y->rank) return NONE;
    if (n->op == QC_OP_Concat) {
        const int64_t given = qc_attr_int(n, "axis", 0);
        if ((int)(given < 0 ? given + y->rank : given) != in) return in;
        for (unsigned i = 0; i < data; i++) *first += g->values[n->inputs[i]].type.shape.dim[in];
        return in;
    }
    return x->dim[in] == y->dim[in] ? in : NONE;
}

static void forward(int *axes, const struct qc_graph *g)
{
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned k = 0; k < n->output_count; k++) {
            const qc_id v = n->outputs + k;
            if (axes[v] != NONE || !is_data(g, v)) continue;
            if (k == 0) axes[v] = made(g, n);
            for (unsigned i = 0; axes[v] == NONE && i < n->input_count; i++) {
                int64_t first;
                if (n->inputs[i] && !qc_constant_of(g, n->inputs[i]) && axes[n->inputs[i]] != NONE)
                    axes[v] = qc_channel_axis_through(&first, g, n, i, k, axes[n->inputs[i]]);
            }
        }
    }
}

/* Returns the axis of the input that becomes axis `out` of a result, or -1. */
static int back(const struct qc_graph *g, const struct qc_node *n, unsigned data, unsigned output, int out)
{
    for (int in = 0; in < g->values[n->inputs[data]].type.shape.rank; in++) {
        int64_t first;
        if (qc_channel_axis_through(&first, g, n, data, output, in) == out) return in;
    }
    return NONE;
}

static void backward(int *axes, const struct qc_graph *g)
{
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id v = n->inputs[i];
            if (!is_data(g, v) || axes[v] != NONE) continue;
            axes[v] = i ? NONE : read(g, n);
            for (unsigned k = 0; axes[v] == NONE && k < n->output_count; k++)
                if (axes[n->outputs + k] != NONE) axes[v] = back(g, n, i, k, axes[n->outputs + k]);
        }
    }
}

/* The channels of a cache are its heads. */
static bool set_heads(int *axes, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    struct qc_uses uses;
    struct qc_cache c;
    if (!qc_uses_of(&uses, g, a, st)) return false;
    for (size_t i = 0; i < g->input_count; i++)
        if (qc_cache_of(&c, &uses, g->inputs[i].value)) axes[c.joins->outputs] = qc_cache_heads(g, &c);
    return true;
}

bool qc_channel_axes(int **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    int *axes = QC_NEW_ARRAY(a, int, g->value_count + 1, st);
    if (!axes) return false;
    for (qc_id v = 0; v <= g->value_count; v++) axes[v] = NONE;
    forward(axes, g);
    backward(axes, g);
    forward(axes, g);
    if (!set_heads(axes, g, a, st)) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_shape *s = &g->values[v].type.shape;
        if (axes[v] >= s->rank || (axes[v] != NONE && s->dim[axes[v]] < 1)) axes[v] = NONE;
    }
    *out = axes;
    return true;
}
