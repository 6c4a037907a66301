// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/channel_layout.h"

#include "base/checked.h"
#include "graph/core/infer.h"

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

/* *stride: the stride of axes from..to-1 taken as one axis. Returns false if there is none. */
static bool join_axes(int64_t *stride, const struct qc_channel_layout *l, const struct qc_shape *s, int from, int to)
{
    int64_t size = 1;
    *stride = 0;
    for (int a = to - 1; a >= from; a--) {
        if (s->dim[a] == 1) continue;
        if (size == 1)
            *stride = l->stride[a];
        else if (l->stride[a] != *stride * size)
            return false;
        size *= s->dim[a];
    }
    return true;
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
        int64_t a = 1, b = 1, stride, size = 1;
        bool known = take_axis(&a, &i, from) && take_axis(&b, &k, to);
        while (known && a != b) known = a < b ? take_axis(&a, &i, from) : take_axis(&b, &k, to);
        if (!known) {
            i = i_end;
            break;
        }
        if (!join_axes(&stride, in, from, i, i_end)) return false;
        for (int axis = k_end - 1; axis >= k; axis--) {
            out->stride[axis] = to->dim[axis] == 1 ? 0 : stride * size;
            size *= to->dim[axis];
        }
    }
    for (int axis = 0; axis < i; axis++)
        if (in->stride[axis] && from->dim[axis] != 1) return false;
    return true;
}

static bool transpose(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_node *n,
                      int rank)
{
    const int64_t *perm;
    const bool given = qc_attr_ints(n, "perm", &perm) == (size_t)rank;
    for (int a = 0; a < rank; a++) out->stride[a] = in->stride[given ? perm[a] : rank - 1 - a];
    return true;
}

static bool slice(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_graph *g,
                  const struct qc_node *n, int rank)
{
    struct qc_status unknown = QC_STATUS_INIT;
    struct qc_slice s;
    if (!qc_slice_of(&s, g, n, &unknown)) return false;
    for (int a = 0; a < rank; a++) {
        out->offset += in->stride[a] * s.start[a];
        out->stride[a] = in->stride[a] * s.step[a];
    }
    return true;
}

/* Returns the axis attribute of a node, which was checked when the node was made. */
static int axis_of(const struct qc_node *n, int rank)
{
    const int64_t axis = qc_attr_int(n, "axis", 0);
    return (int)(axis < 0 ? axis + rank : axis);
}

static bool split(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_graph *g,
                  const struct qc_node *n, int rank, unsigned output)
{
    const int axis = axis_of(n, rank);
    for (int a = 0; a < rank; a++) out->stride[a] = in->stride[a];
    for (unsigned k = 0; in->stride[axis] && k < output; k++) {
        const int64_t size = g->values[n->outputs + k].type.shape.dim[axis];
        if (size == QC_FREE) return false;
        out->offset += in->stride[axis] * size;
    }
    return true;
}

static bool gather(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_graph *g,
                   const struct qc_node *n, const struct qc_shape *s)
{
    const int axis = axis_of(n, s->rank);
    const struct qc_tensor *at = qc_constant_of(g, n->inputs[1]);
    if (!at || at->shape.rank) return false;
    const int64_t place = qc_tensor_int(at, 0);
    if (place < 0 && s->dim[axis] == QC_FREE) return false;
    out->offset += in->stride[axis] * (place < 0 ? place + s->dim[axis] : place);
    for (int a = 0, k = 0; a < s->rank; a++)
        if (a != axis) out->stride[k++] = in->stride[a];
    return true;
}

/* Each product multiplies elements of the two inputs. The summed axis must hold no channels, so that a sum adds
   products of one channel. */
static bool matmul(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_shape *s,
                   const struct qc_shape *result, unsigned data)
{
    const int lead = result->rank - s->rank;
    if (s->rank < 2 || lead < 0 || in->stride[data ? s->rank - 2 : s->rank - 1]) return false;
    for (int a = 0; a < s->rank; a++) {
        if (in->stride[a] && result->dim[lead + a] != s->dim[a]) return false;
        out->stride[lead + a] = in->stride[a];
    }
    return true;
}

static bool through(struct qc_channel_layout *out, const struct qc_channel_layout *in, const struct qc_graph *g,
                    const struct qc_node *n, unsigned data, unsigned output)
{
    const struct qc_shape *s = &g->values[n->inputs[data]].type.shape,
                          *result = &g->values[n->outputs + output].type.shape;
    if (n->op == QC_OP_Transpose) return transpose(out, in, n, s->rank);
    if (n->op == QC_OP_Slice) return slice(out, in, g, n, s->rank);
    if (n->op == QC_OP_Split) return split(out, in, g, n, s->rank, output);
    if (n->op == QC_OP_Gather) return data == 0 && gather(out, in, g, n, s);
    if (n->op == QC_OP_MatMul) return matmul(out, in, s, result, data);
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
