// SPDX-License-Identifier: Apache-2.0
#include "simq/plan/plan_parts.h"

struct qc_tensor *qc_plan_centred(const struct qc_graph *g, qc_id value, struct qc_status *st)
{
    const struct qc_value *v = qc_value(g, value);
    const struct qc_qparams *s = &g->qparams_of[v->type.qparams];
    struct qc_tensor *t = qc_tensor_new(QC_F32, &v->type.shape, st);
    size_t inner = 1;
    if (!t) return NULL;
    for (int i = v->type.axis + 1; i < t->shape.rank; i++) inner *= (size_t)t->shape.dim[i];
    enum { CHUNK = 512 };
    int32_t q[CHUNK];
    float *y = t->data;
    const size_t most = s->count > 1 && inner < CHUNK ? inner : CHUNK;
    for (size_t first = 0, n; first < t->count; first += n) { /* of one channel at a time, where channels differ */
        const size_t left = s->count > 1 ? inner - first % inner : t->count - first;
        n = left < most ? left : most;
        const int32_t zero = s->zero_point[s->count > 1 ? first / inner % s->count : 0];
        qc_tensor_ints(q, v->constant, first, n);
        for (size_t i = 0; i < n; i++) y[first + i] = (float)(q[i] - zero);
    }
    return t;
}
