// SPDX-License-Identifier: Apache-2.0
#include "simq/plan_parts.h"

struct qc_tensor *qc_plan_centred(const struct qc_graph *g, qc_id value, struct qc_status *st)
{
    const struct qc_value *v = qc_value(g, value);
    const struct qc_space *s = &g->spaces[v->type.space];
    struct qc_tensor *t = qc_tensor_new(QC_F32, &v->type.shape, st);
    size_t inner = 1;
    if (!t) return NULL;
    for (int i = v->type.axis + 1; i < t->shape.rank; i++) inner *= (size_t)t->shape.dim[i];
    for (size_t i = 0; i < t->count; i++)
        ((float *)t->data)[i] =
            (float)(qc_tensor_int(v->constant, i) - s->zero_point[s->count > 1 ? i / inner % s->count : 0]);
    return t;
}
