// SPDX-License-Identifier: Apache-2.0
/* Slice, Split and Concat: rectangular parts of a tensor. */
#include "simq/core/kernel_util.h"

static bool prepare_slice(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_slice *s = QC_NEW(p->arena, struct qc_slice, st);
    if (!s) return false;
    if (!qc_slice_of(s, p->graph, p->node, st))
        return qc_fail(st, QC_UNSUPPORTED, "inputs \"starts\", \"ends\", \"axes\" and \"steps\" must be constant");
    p->state = s;
    return true;
}

static bool run_slice(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
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
    int *axis = QC_NEW(p->arena, int, st);
    p->state = axis;
    return axis && qc_kernel_axis(axis, p, 0, st);
}

static bool run_split(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const int axis = *(const int *)r->state;
    int64_t begin = 0;
    for (unsigned i = 0; i < r->output_count; i++) {
        const int64_t count = r->out[i].dim[axis];
        const struct qc_view part = qc_view_part(&r->in[0], axis, begin, count);
        if (r->out[i].data) qc_view_copy(&r->out[i], &part); /* a result that nobody uses has no memory */
        begin += count;
    }
    return true;
}

static bool run_concat(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
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
