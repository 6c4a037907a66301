// SPDX-License-Identifier: Apache-2.0
#include "simq/core/kernel_util.h"

static bool prepare(struct qc_prepare *p, struct qc_status *st)
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

static bool run(const struct qc_run *r, struct qc_status *st)
{
    (void)st;
    const int *order = r->state;
    struct qc_view from = r->in[0];
    for (int d = 0; d < from.rank; d++) {
        from.dim[d] = r->in[0].dim[order[d]];
        from.stride[d] = r->in[0].stride[order[d]];
    }
    qc_view_copy(&r->out[0], &from);
    return true;
}

QC_KERNEL(transpose, .halves = true, .order = QC_ORDER_ANY, .prepare = prepare, .run = run);
