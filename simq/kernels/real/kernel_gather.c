// SPDX-License-Identifier: Apache-2.0
/* Gather-13, GatherElements-13 and GatherND-13: elements selected by indices, which are data and therefore checked. */
#include <string.h>

#include "simq/core/kernel_util.h"

static bool prepare(struct qc_prepare *p, struct qc_status *st)
{
    if (p->in[1].dtype != QC_I32 && p->in[1].dtype != QC_I64) return qc_kernel_no_type(p->in[1].dtype, st);
    int *axis = QC_NEW_STATE(p, int, st);
    return axis && qc_kernel_axis(axis, p, 0, st);
}

static bool run_gather(const struct qc_run *r, struct qc_status *st)
{
    const int axis = *(const int *)r->state;
    const struct qc_view *data = &r->in[0], *indices = &r->in[1], *to = &r->out[0];
    /* [before, indices..., after]: one part of the output, and of the data, per index. */
    struct qc_view from = *data, part = *to;
    from.rank = part.rank = data->rank - 1;
    for (int d = 0, k = 0; d < data->rank; d++) {
        if (d == axis) continue;
        const int o = d < axis ? d : d - 1 + indices->rank;
        from.dim[k] = data->dim[d];
        from.stride[k] = data->stride[d];
        part.dim[k] = to->dim[o];
        part.stride[k++] = to->stride[o];
    }
    struct qc_view place = *indices; /* starts of the parts in the output */
    for (int d = 0; d < indices->rank; d++) place.stride[d] = to->stride[axis + d];
    const struct qc_view *const views[] = {indices, &place};
    struct qc_walk w;
    for (bool more = qc_walk_begin(&w, 2, views, 0); more; more = qc_walk_next(&w)) {
        int64_t i;
        if (!qc_kernel_index_at(&i, indices, w.at[0], data->dim[axis], axis, st)) return false;
        from.data = qc_at(data, i * data->stride[axis]);
        part.data = qc_at(to, w.at[1]);
        qc_view_copy(&part, &from);
    }
    return true;
}

static bool run_gather_elements(const struct qc_run *r, struct qc_status *st)
{
    const int axis = *(const int *)r->state;
    const struct qc_view *to = &r->out[0], *indices = &r->in[1];
    const size_t size = qc_dtype_size(to->dtype);
    struct qc_view from = r->in[0];
    const int64_t along = from.stride[axis], n = from.dim[axis];
    from.stride[axis] = 0;
    const struct qc_view *const views[] = {to, indices, &from};
    struct qc_walk w;
    for (bool more = qc_walk_begin(&w, 3, views, 0); more; more = qc_walk_next(&w)) {
        int64_t i;
        if (!qc_kernel_index_at(&i, indices, w.at[1], n, axis, st)) return false;
        memcpy(qc_at(to, w.at[0]), qc_at(&from, w.at[2] + i * along), size);
    }
    return true;
}

/* The last dimension of the indices holds positions in the dimensions of the data after the batch. */
static bool run_nd(const struct qc_run *r, struct qc_status *st)
{
    const int batch = *(const int *)r->state;
    const struct qc_view *x = &r->in[0], *indices = &r->in[1], *to = &r->out[0];
    const int last = indices->rank - 1;
    const int depth = (int)indices->dim[last];
    struct qc_view from = *x, part = *to, first = *indices, place = *indices, data = *indices;
    from.rank = part.rank = x->rank - batch - depth;
    for (int d = 0; d < from.rank; d++) {
        from.dim[d] = part.dim[d] = x->dim[batch + depth + d];
        from.stride[d] = x->stride[batch + depth + d];
        part.stride[d] = to->stride[last + d];
    }
    first.rank = place.rank = data.rank = last;
    for (int d = 0; d < last; d++) {
        place.stride[d] = to->stride[d];
        data.stride[d] = d < batch ? x->stride[d] : 0;
    }
    const struct qc_view *const views[] = {&first, &place, &data};
    struct qc_walk w;
    for (bool more = qc_walk_begin(&w, 3, views, 0); more; more = qc_walk_next(&w)) {
        int64_t at = w.at[2];
        for (int d = 0; d < depth; d++) {
            int64_t i;
            if (!qc_kernel_index_at(&i, indices, w.at[0] + d * indices->stride[last], x->dim[batch + d], batch + d, st))
                return false;
            at += i * x->stride[batch + d];
        }
        from.data = qc_at(x, at);
        part.data = qc_at(to, w.at[1]);
        qc_view_copy(&part, &from);
    }
    return true;
}

static bool prepare_nd(struct qc_prepare *p, struct qc_status *st)
{
    int *batch = QC_NEW_STATE(p, int, st);
    if (batch) *batch = (int)qc_attr_int(p->node, "batch_dims", 0);
    return batch != NULL;
}

QC_KERNEL(gather_nd, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare_nd, .run = run_nd);
QC_KERNEL(gather, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare, .run = run_gather);
QC_KERNEL(gather_elements, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare, .run = run_gather_elements);
