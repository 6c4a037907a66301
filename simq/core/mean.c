// SPDX-License-Identifier: Apache-2.0
#include "simq/core/mean.h"

#include <string.h>

bool qc_mean_of(struct qc_mean *out, struct qc_prepare *p, size_t size, struct qc_status *st)
{
    struct qc_mean m = {.keep = true};
    const bool pool = p->node->op == QC_OP_GlobalAveragePool;
    const int64_t *axes;
    const size_t count = pool ? 0 : qc_attr_ints(p->node, "axes", &axes);
    float n = 1;
    if (!pool) m.keep = qc_attr_int(p->node, "keepdims", 1) != 0;
    for (size_t i = 0; i < count; i++) {
        int axis;
        if (!qc_axis_of(&axis, axes[i], p->in[0].rank, st)) return false;
        m.reduced[axis] = true;
    }
    for (int i = 0; i < p->in[0].rank; i++) {
        if (pool)
            m.reduced[i] = i >= 2;
        else if (count == 0)
            m.reduced[i] = qc_attr_int(p->node, "noop_with_empty_axes", 0) == 0;
        if (m.reduced[i]) n *= (float)p->in[0].dim[i];
    }
    m.count = (int64_t)n;
    p->scratch = qc_view_count(&p->out[0]) * size + 64;
    *out = m;
    return true;
}

void qc_mean_sums(struct qc_view *sums, struct qc_view *wide, const struct qc_mean *m, const struct qc_run *r,
                  enum qc_dtype t)
{
    const struct qc_view *x = &r->in[0], *y = &r->out[0];
    *wide = *x;
    *sums = *y;
    memset(r->scratch, 0, qc_view_count(y) * qc_dtype_size(t));
    wide->dtype = sums->dtype = t;
    wide->data = sums->data = r->scratch;
    for (int i = 0, k = 0; i < x->rank; i++) {
        wide->stride[i] = m->reduced[i] ? 0 : y->stride[k];
        if (!m->reduced[i] || m->keep) k++;
    }
}
