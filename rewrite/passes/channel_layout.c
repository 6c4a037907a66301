// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/channel_layout.h"

#include "base/checked.h"
#include "graph/core/graph.h"
#include "graph/core/infer.h"
#include "graph/core/uses.h"

int qc_layout_axis(const struct qc_channel_layout *l, int rank)
{
    int axis = -1;
    for (int a = 0; a < rank; a++) {
        if (!l->stride[a]) continue;
        if (axis >= 0 || l->stride[a] != 1) return -1;
        axis = a;
    }
    return axis;
}

bool qc_layout_moves(enum qc_op op)
{
    return op == QC_OP_Reshape || op == QC_OP_Flatten || op == QC_OP_Squeeze || op == QC_OP_Unsqueeze ||
           op == QC_OP_Transpose || op == QC_OP_Slice || op == QC_OP_Split || op == QC_OP_Gather || op == QC_OP_MatMul;
}

/* Multiplies the product by the size of the axis in front of *first, and moves *first to it. Returns false if there is
   no such axis or its size is free. */
static bool take_axis(int64_t *product, int *first, const struct qc_shape *s)
{
    return *first > 0 && s->dim[*first - 1] != QC_FREE && qc_mul_i64(product, *product, s->dim[--*first]);
}

/* Both sides are row-major: from the right, groups of axes with the same product of sizes hold the same elements. The
   axes in front of the last group may hold no channels. */
static bool reshape(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_shape *from,
                    const struct qc_shape *to)
{
    int i = from->rank, k = to->rank;
    while (i > 0 && k > 0) {
        const int i_end = i, k_end = k;
        int64_t a = 1, b = 1, stride = 0, size = 1;
        bool known = take_axis(&a, &i, from) && take_axis(&b, &k, to);
        while (known && a != b) known = a < b ? take_axis(&a, &i, from) : take_axis(&b, &k, to);
        if (!known) {
            i = i_end;
            break;
        }
        /* The stride of axes i..i_end-1 taken as one axis. */
        for (int axis = i_end - 1; axis >= i; axis--) {
            if (from->dim[axis] == 1) continue;
            if (size == 1)
                stride = in->stride[axis];
            else if (in->stride[axis] != stride * size)
                return false;
            size *= from->dim[axis];
        }
        size = 1;
        for (int axis = k_end - 1; axis >= k; axis--) {
            out->stride[axis] = to->dim[axis] == 1 ? 0 : stride * size;
            size *= to->dim[axis];
        }
    }
    for (int axis = 0; axis < i; axis++)
        if (in->stride[axis] && from->dim[axis] != 1) return false;
    return true;
}

/* Returns the axis attribute of a node, which was checked when the node was made. */
static int node_axis(const struct qc_node *n, int rank)
{
    const int64_t axis = qc_attr_int(n, "axis", 0);
    return (int)(axis < 0 ? axis + rank : axis);
}

static bool through(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_graph *g,
                    const struct qc_node *n, unsigned data, unsigned output)
{
    const struct qc_shape *s = &g->values[n->inputs[data]].type.shape,
                          *result = &g->values[n->outputs + output].type.shape;
    if (n->op == QC_OP_Transpose) {
        const int64_t *perm;
        const bool given = qc_attr_ints(n, "perm", &perm) == (size_t)s->rank;
        for (int a = 0; a < s->rank; a++) out->stride[a] = in->stride[given ? perm[a] : s->rank - 1 - a];
        return true;
    }
    if (n->op == QC_OP_Slice) {
        struct qc_status unknown = QC_STATUS_INIT;
        struct qc_slice slice;
        if (!qc_slice_of(&slice, g, n, &unknown)) return false;
        for (int a = 0; a < s->rank; a++) {
            out->offset += in->stride[a] * slice.start[a];
            out->stride[a] = in->stride[a] * slice.step[a];
        }
        return true;
    }
    if (n->op == QC_OP_Split) {
        const int axis = node_axis(n, s->rank);
        for (int a = 0; a < s->rank; a++) out->stride[a] = in->stride[a];
        for (unsigned k = 0; in->stride[axis] && k < output; k++) {
            const int64_t size = g->values[n->outputs + k].type.shape.dim[axis];
            if (size == QC_FREE) return false;
            out->offset += in->stride[axis] * size;
        }
        return true;
    }
    if (n->op == QC_OP_Gather) {
        const int axis = node_axis(n, s->rank);
        const struct qc_tensor *at = qc_constant_of(g, n->inputs[1]);
        if (data || !at || at->shape.rank) return false;
        const int64_t place = qc_tensor_int(at, 0);
        if (place < 0 && s->dim[axis] == QC_FREE) return false;
        out->offset += in->stride[axis] * (place < 0 ? place + s->dim[axis] : place);
        for (int a = 0, k = 0; a < s->rank; a++)
            if (a != axis) out->stride[k++] = in->stride[a];
        return true;
    }
    if (n->op == QC_OP_MatMul) {
        /* Each product multiplies elements of the two inputs. The summed axis must hold no channels, so that a sum
           adds products of one channel. */
        const int lead = result->rank - s->rank;
        if (s->rank < 2 || lead < 0 || in->stride[data ? s->rank - 2 : s->rank - 1]) return false;
        for (int a = 0; a < s->rank; a++) {
            if (in->stride[a] && result->dim[lead + a] != s->dim[a]) return false;
            out->stride[lead + a] = in->stride[a];
        }
        return true;
    }
    return qc_layout_moves(n->op) && reshape(out, in, s, result);
}

bool qc_layout_through(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_graph *g,
                       const struct qc_node *n, unsigned data, unsigned output)
{
    const struct qc_shape *result = &g->values[n->outputs + output].type.shape;
    *out = (struct qc_channel_layout){.offset = in->offset};
    bool known =
        g->values[n->inputs[data]].type.shape.rank >= 0 && result->rank >= 0 && through(out, in, g, n, data, output);
    for (int a = 0; known && a < result->rank; a++) known = !out->stride[a] || result->dim[a] != QC_FREE;
    return known;
}

void qc_layout_mark(bool *marked, const struct qc_channel_layout *l, const struct qc_shape *s)
{
    int64_t at[QC_RANK_MAX] = {0}, channel = l->offset;
    for (int a = 0; a < s->rank; a++)
        if (l->stride[a] && s->dim[a] < 1) return;
    for (;;) {
        int a = s->rank - 1;
        marked[channel] = true;
        for (; a >= 0; channel -= l->stride[a] * at[a], at[a] = 0, a--) {
            if (!l->stride[a] || at[a] + 1 >= s->dim[a]) continue;
            at[a]++;
            channel += l->stride[a];
            break;
        }
        if (a < 0) return;
    }
}

enum { NONE = -1 };

const struct qc_tensor *qc_layer_constant(const struct qc_graph *g, const struct qc_node *n)
{
    if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT) return NULL;
    const struct qc_node *q = qc_node_of(g, n->inputs[1]);
    const struct qc_tensor *t = qc_constant_of(g, q && q->op == QC_OP_Quantize ? q->inputs[0] : n->inputs[1]);
    return t && t->dtype == QC_F32 && t->count ? t : NULL;
}

const struct qc_tensor *qc_real_constant(const struct qc_graph *g, const struct qc_node *n, unsigned i)
{
    const struct qc_tensor *t = i < n->input_count ? qc_constant_of(g, n->inputs[i]) : NULL;
    return t && t->dtype == QC_F32 && t->count && g->values[n->inputs[i]].type.qparams == QC_REAL ? t : NULL;
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
    if (n->op == QC_OP_ReduceMean || n->op == QC_OP_ReduceSum || n->op == QC_OP_ReduceMax || n->op == QC_OP_ReduceMin) {
        if (data) return NONE;
        /* The position of a kept axis after the reduced axes in front of it are gone. */
        const int64_t *axes;
        const size_t count = qc_attr_ints(n, "axes", &axes);
        const int rank = g->values[n->inputs[0]].type.shape.rank;
        int out = in;
        if (!count) return NONE;
        for (size_t i = 0; i < count; i++) {
            const int at = (int)(axes[i] < 0 ? axes[i] + rank : axes[i]);
            if (at == in) return NONE;
            if (at < in && !qc_attr_int(n, "keepdims", 1)) out--;
        }
        return out;
    }
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
    QC_EACH_NODE(n, g)
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

bool qc_channel_axes(int **out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    int *axes = QC_NEW_ARRAY(a, int, g->value_count + 1, st);
    if (!axes) return false;
    for (qc_id v = 0; v <= g->value_count; v++) axes[v] = NONE;
    forward(axes, g);
    QC_EACH_NODE_BACK(n, g)
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id v = n->inputs[i];
            if (!is_data(g, v) || axes[v] != NONE) continue;
            axes[v] = i ? NONE : read(g, n);
            for (unsigned k = 0; axes[v] == NONE && k < n->output_count; k++) {
                const int out_axis = axes[n->outputs + k]; /* which axis of the input becomes it? */
                int64_t first;
                for (int in = 0; axes[v] == NONE && out_axis != NONE && in < g->values[v].type.shape.rank; in++)
                    if (qc_channel_axis_through(&first, g, n, i, k, in) == out_axis) axes[v] = in;
            }
        }
    forward(axes, g);
    /* The channels of a cache are its heads. */
    struct qc_uses uses;
    struct qc_cache c;
    if (!qc_uses_of(&uses, g, a, st)) return false;
    for (size_t i = 0; i < g->input_count; i++)
        if (qc_cache_of(&c, &uses, g->inputs[i].value)) axes[c.joins->outputs] = qc_cache_heads(g, &c);
    for (qc_id v = 1; v <= g->value_count; v++) {
        const struct qc_shape *s = &g->values[v].type.shape;
        if (axes[v] >= s->rank || (axes[v] != NONE && s->dim[axes[v]] < 1)) axes[v] = NONE;
    }
    *out = axes;
    return true;
}
