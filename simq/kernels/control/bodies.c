// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/control/bodies.h"

#include <stdlib.h>

#include "base/budget.h"

struct local {
    struct qc_variant_runners *runners[QC_BODIES];
};

bool qc_bodies_prepare(struct qc_prepare *p, struct qc_status *st)
{
    struct qc_bodies_state *s = QC_NEW_STATE(p, struct qc_bodies_state, st);
    const struct qc_plan_options options = {.accumulator = p->accumulator,
                                            .rounding = p->contract,
                                            .lowering = p->int16 ? QC_LOWERING_INT16 : QC_LOWERING_INT8,
                                            .isa = p->isa};
    if (!s) return false;
    s->node = p->node;
    s->watch = p->watch;
    if (!qc_bodies_of(&s->bodies, p->node, st)) return false;
    for (unsigned k = 0; k < s->bodies.count; k++)
        if (!qc_variants_new(&s->variants[k], s->bodies.graph[k], &options, st)) return false;
    return true;
}

void qc_bodies_release_state(void *state)
{
    struct qc_bodies_state *s = state;
    for (unsigned k = 0; k < QC_BODIES; k++) qc_variants_free(s->variants[k]);
}

bool qc_bodies_open(void **local, const struct qc_run *r, struct qc_status *st)
{
    const struct qc_bodies_state *s = r->state;
    struct local *l = calloc(1, sizeof *l);
    bool ok = l != NULL || qc_fail_memory(st, sizeof *l);
    for (unsigned k = 0; ok && k < s->bodies.count; k++)
        ok = qc_variant_runners_new(&l->runners[k], s->variants[k], st);
    if (ok)
        *local = l;
    else
        qc_bodies_close(l);
    return ok;
}

void qc_bodies_close(void *local)
{
    struct local *l = local;
    for (unsigned k = 0; l && k < QC_BODIES; k++) qc_variant_runners_free(l->runners[k]);
    free(l);
}

bool qc_body_run(struct qc_runner **runner, const struct qc_run *r, unsigned k, const struct qc_view *in,
                 struct qc_status *st)
{
    const struct qc_bodies_state *s = r->state;
    const struct local *l = r->local;
    const size_t count = s->bodies.graph[k]->input_count;
    const struct qc_graph *body = s->bodies.graph[k];
    if (s->watch && !s->watch->fn(s->watch->user, body->shaped_from ? body->shaped_from : body, count, in, st))
        return false;
    struct qc_shape *shapes = calloc(count + 1, sizeof *shapes);
    if (!shapes) return qc_fail_memory(st, count * sizeof *shapes);
    for (size_t i = 0; i < count; i++) shapes[i] = qc_shape_of(in[i].rank, in[i].dim);
    bool ok = qc_variant_runner(runner, l->runners[k], shapes, st);
    free(shapes);
    for (size_t i = 0; ok && i < count; i++) {
        const struct qc_view to = qc_runner_input(*runner, i);
        if (qc_view_count(&to)) qc_view_copy(&to, &in[i]);
    }
    return (ok && qc_runner_run(*runner, NULL, NULL, st)) || qc_where(st, "body '%s'", s->bodies.attr[k]);
}

struct qc_tensor *qc_body_keep(const struct qc_run *r, const struct qc_view *v, struct qc_status *st)
{
    const struct qc_bodies_state *s = r->state;
    const struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    const size_t bytes = qc_view_count(v) * qc_dtype_size(v->dtype);
    if (!qc_budget_run(&s->bodies.graph[0]->budget, bytes, 0, st)) return NULL;
    struct qc_tensor *t = qc_tensor_new(v->dtype, &shape, st);
    if (!t || !t->count) return t;
    const struct qc_view to = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, t->data);
    qc_view_copy(&to, v);
    return t;
}

bool qc_body_condition(bool *out, const struct qc_view *v, struct qc_status *st)
{
    const size_t count = qc_view_count(v);
    if (count != 1) return qc_fail(st, QC_BAD_INPUT, "its condition has %zu elements instead of one", count);
    *out = *(const uint8_t *)v->data != 0;
    return true;
}

bool qc_run_made(bool (*make)(struct qc_tensor **outputs, const struct qc_run *r, struct qc_status *st),
                 const struct qc_run *r, struct qc_status *st)
{
    struct qc_tensor **made = calloc(r->output_count + 1, sizeof(struct qc_tensor *));
    bool ok = made ? make(made, r, st) : qc_fail_memory(st, r->output_count * sizeof(struct qc_tensor *));
    for (unsigned k = 0; ok && k < r->output_count; k++) {
        const struct qc_shape want = qc_shape_of(r->out[k].rank, r->out[k].dim);
        char is[QC_SHAPE_TEXT], planned[QC_SHAPE_TEXT];
        if (!qc_shape_equal(&want, &made[k]->shape)) {
            ok = qc_fail(st, QC_BAD_INPUT, "output %u is %s, expected %s", k, qc_shape_text(is, &made[k]->shape),
                         qc_shape_text(planned, &want));
        } else if (r->out[k].data && made[k]->count) {
            const struct qc_view from = qc_view_of(made[k]->dtype, &want, QC_LAYOUT_ROW, made[k]->data);
            qc_view_copy(&r->out[k], &from);
        }
    }
    for (unsigned k = 0; made && k < r->output_count; k++) qc_tensor_unref(made[k]);
    free(made);
    return ok;
}
