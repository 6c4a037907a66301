// SPDX-License-Identifier: Apache-2.0
/* Expand and Tile: elements repeated. */
#include "simq/core/kernel_util.h"

static bool run_expand(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const struct qc_view from = qc_view_broadcast(&r->in[0], &r->out[0]);
    qc_view_copy(&r->out[0], &from);
    return true;
}

/* An axis of size d repeated r times is two: [r, d], the first of stride 0 in the input. Axes of one element and axes
   that are not repeated need only one. When that gives more than the greatest rank, the repeats of the leading axes are
   walked. */
static bool run_tile(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const struct qc_view *in = &r->in[0], *out = &r->out[0];
    if (qc_view_count(out) == 0) return true;
    struct qc_view from = *in, to = *out;
    struct qc_view outer = {.dtype = out->dtype};
    from.rank = to.rank = 0;
    for (int d = in->rank; d-- > 0;) { /* dimensions of a copy may come in any order */
        const int64_t times = out->dim[d] / in->dim[d];
        if (in->dim[d] > 1 || times == 1) {
            from.dim[from.rank] = to.dim[from.rank] = in->dim[d];
            from.stride[from.rank] = in->stride[d];
            to.stride[from.rank] = out->stride[d];
            from.rank = ++to.rank;
        }
        if (times == 1) continue;
        const int left = d; /* each axis to come needs at least one place */
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
    const struct qc_view *const views[] = {&outer};
    struct qc_walk w;
    if (!qc_walk_begin(&w, 1, views, 0)) return true;
    do {
        to.data = qc_at(out, w.at[0]);
        qc_view_copy(&to, &from);
    } while (qc_walk_next(&w));
    return true;
}

QC_KERNEL(expand, .halves = true, .order = QC_ORDER_ANY, .run = run_expand);
QC_KERNEL(tile, .halves = true, .order = QC_ORDER_ANY, .run = run_tile);
