// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/grow.h"
#include "graph/core/parameters.h"
#include "simq/plan/plan_parts.h"

struct qc_tensor *qc_plan_centred(const struct qc_graph *g, qc_id value, struct qc_status *st)
{
    const struct qc_value *v = qc_value(g, value);
    const struct qc_qparams *s = &g->qparams_of[v->type.qparams];
    if (v->constant->dtype == QC_F32) return qc_tensor_ref(v->constant); /* floating-point levels */
    struct qc_tensor *t = qc_tensor_new(QC_F32, &v->type.shape, st);
    if (!t) return NULL;
    const struct qc_scale_layout layout = qc_scale_layout_of(s, &v->type.shape, v->type.axis);
    const size_t inner = layout.inner;
    enum { CHUNK = 512 };
    int32_t q[CHUNK];
    float *y = t->data;
    for (size_t first = 0, n; s->block && first < t->count; first += n) {
        n = t->count - first < CHUNK ? t->count - first : CHUNK;
        qc_tensor_ints(q, v->constant, first, n);
        for (size_t i = 0; i < n; i++) y[first + i] = (float)(q[i] - s->zero_point[qc_scale_at(&layout, first + i)]);
    }
    if (s->block) return t;
    const size_t most = s->count > 1 && inner < CHUNK ? inner : CHUNK;
    for (size_t first = 0, n; first < t->count; first += n) { /* one channel at a time if scales differ by channel */
        const size_t left = s->count > 1 ? inner - first % inner : t->count - first;
        n = left < most ? left : most;
        const int32_t zero = s->zero_point[s->count > 1 ? first / inner % s->count : 0];
        qc_tensor_ints(q, v->constant, first, n);
        for (size_t i = 0; i < n; i++) y[first + i] = (float)(q[i] - zero);
    }
    return t;
}

static qc_id weight_of(const struct qc_binding *b, const struct qc_node *n)
{
    const qc_id v = n->input_count > 1 && n->inputs[1] ? b->root[n->inputs[1]] : 0;
    return v && b->later[v] ? v : 0;
}

bool qc_plan_make_weight(struct qc_binding *b, const struct qc_node *n, struct qc_status *st)
{
    const qc_id v = weight_of(b, n);
    if (!v || b->plan->tensors[v]) return true;
    const struct qc_node *maker = qc_node_of(b->g, v);
    const struct qc_view in = qc_view_of_tensor(qc_constant_of(b->g, maker->inputs[0]));
    return qc_evaluate_views(&b->plan->tensors[v], b->g, maker, &in, st) &&
           (!b->g->spills || qc_tensor_spill(b->plan->tensors[v], st));
}

void qc_plan_drop_weight(struct qc_binding *b, const struct qc_node *n, size_t first_step)
{
    struct qc_plan *p = b->plan;
    const qc_id v = weight_of(b, n);
    if (!v || b->uses[v] != 1) return;
    for (size_t i = first_step; i < p->step_count; i++)
        for (unsigned k = 0; k < p->steps[i].input_count; k++)
            if (p->steps[i].in[k].view.data == p->tensors[v]->data) return;
    qc_tensor_unref(p->tensors[v]);
    p->tensors[v] = NULL;
}

bool qc_plan_turn_constant(struct qc_operand *out, struct qc_plan *p, const struct qc_view *from, enum qc_layout layout,
                           struct qc_status *st)
{
    struct qc_shape shape = qc_shape_of(from->rank, from->dim);
    struct qc_tensor *t = qc_tensor_new(from->dtype, &shape, st);
    if (!t) return false;
    struct qc_tensor **more = qc_grown(p->copies, p->copy_count, &p->copy_capacity, sizeof *more, st);
    if (!more) {
        qc_tensor_unref(t);
        return false;
    }
    p->copies = more;
    p->copies[p->copy_count++] = t;
    *out = (struct qc_operand){.view = qc_view_of(from->dtype, &shape, layout, t->data)};
    qc_view_copy(&out->view, from);
    return true;
}
