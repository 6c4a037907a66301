// SPDX-License-Identifier: Apache-2.0
/* Slice, Split and Concat: rectangular parts of a tensor. */
#include <string.h>

#include "simq/core/kernel_util.h"

static bool prepare_slice(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_slice *s = QC_NEW_STATE(p, struct qc_slice, st);
    if (!s) return false;
    if (!qc_slice_of(s, p->graph, p->node, st))
        return qc_fail(st, QC_UNSUPPORTED, "inputs \"starts\", \"ends\", \"axes\" and \"steps\" must be constant");
    return true;
}

static bool run_slice(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_slice *s = r->state;
    struct qc_view from = r->in[0];
    if (qc_view_count(&r->out[0]) == 0) return true;
    int64_t offset = 0;
    for (int d = 0; d < from.rank; d++) {
        offset += s->start[d] * from.stride[d];
        from.dim[d] = r->out[0].dim[d];
        from.stride[d] *= s->step[d];
    }
    from.data = qc_at(&r->in[0], offset);
    qc_view_copy(&r->out[0], &from);
    return true;
}

static bool prepare_axis(struct qc_prepare *p, struct qc_status *st)
{
    int *axis = QC_NEW_STATE(p, int, st);
    return axis && qc_kernel_axis(axis, p, 0, st);
}

static bool run_split(const struct qc_run *r, struct qc_status *st)
{
    const int axis = *(const int *)r->state;
    int64_t begin = 0;
    for (unsigned i = 0; i < r->output_count; i++) {
        const int64_t count = r->out[i].dim[axis];
        const struct qc_view part = qc_view_part(&r->in[0], axis, begin, count);
        if (r->out[i].data) qc_view_copy(&r->out[i], &part); /* an unused result has no memory */
        begin += count;
    }
    return true;
}

static bool run_concat(const struct qc_run *r, struct qc_status *st)
{
    const int axis = *(const int *)r->state;
    int64_t begin = 0;
    for (unsigned i = 0; i < r->input_count; i++) {
        const int64_t count = r->in[i].dim[axis];
        const struct qc_view part = qc_view_part(&r->out[0], axis, begin, count);
        qc_view_copy(&part, &r->in[i]);
        begin += count;
    }
    return true;
}

QC_KERNEL(slice, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_slice, .run = run_slice);
QC_KERNEL(split, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_axis, .run = run_split);
QC_KERNEL(concat, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_axis, .run = run_concat);

static bool prepare_move(struct qc_prepare *p, struct qc_status *st)
{
    const int rank = p->in[0].rank;
    const int64_t *perm;
    const size_t n = qc_attr_ints(p->node, "perm", &perm);
    int *order = QC_NEW_ARRAY(p->arena, int, QC_RANK_MAX, st);
    if (!order) return false;
    for (int d = 0; d < rank; d++) {
        order[d] = rank - 1 - d;
        if (n == (size_t)rank && !qc_axis_of(&order[d], perm[d], rank, st)) return false;
    }
    p->state = order;
    return true;
}

static bool run_move(const struct qc_run *r, struct qc_status *st)
{
    const int *order = r->state;
    struct qc_view from = r->in[0];
    for (int d = 0; d < from.rank; d++) {
        from.dim[d] = r->in[0].dim[order[d]];
        from.stride[d] = r->in[0].stride[order[d]];
    }
    qc_view_copy(&r->out[0], &from);
    return true;
}

QC_KERNEL(transpose, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_move, .run = run_move);

/* DepthToSpace-13 and SpaceToDepth-13 of [N,C,H,W]: one copy between two windows of rank 6. */

struct state {
    bool to_space, crd;
    int64_t block;
};

static bool prepare_depth_space(struct qc_prepare *p, struct qc_status *st)
{
    struct state *s = QC_NEW_STATE(p, struct state, st);
    if (!s) return false;
    const char *mode = qc_attr_string(p->node, "mode", "DCR");
    s->to_space = p->node->op == QC_OP_DepthToSpace;
    s->crd = s->to_space && strcmp(mode, "CRD") == 0;
    s->block = qc_attr_int(p->node, "blocksize", 1);
    if (!s->crd && strcmp(mode, "DCR") != 0)
        return qc_fail(st, QC_BAD_INPUT, "attribute mode is \"%s\", expected \"DCR\" or \"CRD\"", mode);
    if (p->in[0].rank != 4) return qc_fail(st, QC_BAD_INPUT, "input has rank %d, expected 4", p->in[0].rank);
    return true;
}

/* A view as [N, c, H, b, W, b]: of the tensor with large planes, or (is_deep) of the one with many channels. */
static struct qc_view blocked(const struct qc_view *v, const struct qc_view *deep, const struct state *s, bool is_deep)
{
    const int64_t b = s->block, channels = deep->dim[1] / (b * b);
    struct qc_view w = {.dtype = v->dtype, .rank = 6, .data = v->data};
    const int64_t dim[6] = {deep->dim[0], channels, deep->dim[2], b, deep->dim[3], b};
    for (int d = 0; d < 6; d++) w.dim[d] = dim[d];
    w.stride[0] = v->stride[0];
    if (is_deep) {
        const int64_t each = s->crd ? v->stride[1] : v->stride[1] * channels; /* step between block positions */
        w.stride[1] = s->crd ? v->stride[1] * b * b : v->stride[1];
        w.stride[2] = v->stride[2];
        w.stride[3] = each * b;
        w.stride[4] = v->stride[3];
        w.stride[5] = each;
    } else {
        w.stride[1] = v->stride[1];
        w.stride[2] = v->stride[2] * b;
        w.stride[3] = v->stride[2];
        w.stride[4] = v->stride[3] * b;
        w.stride[5] = v->stride[3];
    }
    return w;
}

static bool run_depth_space(const struct qc_run *r, struct qc_status *st)
{
    const struct state *s = r->state;
    const struct qc_view *deep = s->to_space ? &r->in[0] : &r->out[0];
    const struct qc_view from = blocked(&r->in[0], deep, s, s->to_space),
                         to = blocked(&r->out[0], deep, s, !s->to_space);
    qc_view_copy(&to, &from);
    return true;
}

QC_KERNEL(depth_space, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_depth_space, .run = run_depth_space);

/* Expand and Tile: repeat elements. */

static bool run_expand(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view from = qc_view_broadcast(&r->in[0], &r->out[0]);
    qc_view_copy(&r->out[0], &from);
    return true;
}

/* An axis of size d repeated r times becomes two: [r, d], the first with stride 0 in the input. Axes of one element
   and axes that are not repeated stay one. If the rank would exceed the maximum, the repeats of the leading axes are
   looped over. */
static bool run_tile(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *in = &r->in[0], *out = &r->out[0];
    if (qc_view_count(out) == 0) return true;
    struct qc_view from = *in, to = *out;
    struct qc_view outer = {.dtype = out->dtype};
    from.rank = to.rank = 0;
    for (int d = in->rank; d-- > 0;) { /* the dimensions of a copy may have any order */
        const int64_t times = out->dim[d] / in->dim[d];
        if (in->dim[d] > 1 || times == 1) {
            from.dim[from.rank] = to.dim[from.rank] = in->dim[d];
            from.stride[from.rank] = in->stride[d];
            to.stride[from.rank] = out->stride[d];
            from.rank = ++to.rank;
        }
        if (times == 1) continue;
        const int left = d; /* each remaining axis needs at least one dimension */
        if (from.rank + left < QC_RANK_MAX) {
            from.dim[from.rank] = to.dim[from.rank] = times;
            from.stride[from.rank] = 0;
            to.stride[from.rank] = out->stride[d] * in->dim[d];
            from.rank = ++to.rank;
        } else {
            outer.dim[outer.rank] = times;
            outer.stride[outer.rank++] = out->stride[d] * in->dim[d];
        }
    }
    QC_WALK(w, 0, &outer) {
        to.data = qc_at(out, w.at[0]);
        qc_view_copy(&to, &from);
    }
    return true;
}

QC_KERNEL(expand, .halves = true, .order = QC_ORDER_ANY, .run = run_expand);
QC_KERNEL(tile, .halves = true, .order = QC_ORDER_ANY, .run = run_tile);

/* Reshape, Flatten, Squeeze, Unsqueeze: the same elements in the same logical order with another shape. */

static bool run_copy(const struct qc_run *r, struct qc_status *st)
{
    const struct qc_view *from = &r->in[0], *to = &r->out[0];
    const size_t bytes = qc_view_bytes(to);
    if (bytes && to->data != from->data) memmove(to->data, from->data, bytes);
    return true;
}

QC_KERNEL(copy, .halves = true, .order = QC_ORDER_ROW, .alias = true, .run = run_copy);
