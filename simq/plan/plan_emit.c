// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "base/array.h"
#include "simq/plan/plan_parts.h"

uint32_t qc_plan_new_storage(struct qc_plan *p, size_t bytes, struct qc_status *st)
{
    if (!qc_budget_run(&p->graph->budget, bytes, p->input_bytes, st)) return 0;
    struct qc_storage *more = qc_grown(p->storages, p->storage_count + 1, &p->storage_capacity, sizeof *more, st);
    if (!more) return 0;
    p->storages = more;
    const uint32_t id = (uint32_t)++p->storage_count;
    p->storages[id] = (struct qc_storage){.bytes = bytes, .first = SIZE_MAX};
    return id;
}

bool qc_plan_new_operand(struct qc_plan_operand *out, struct qc_plan *p, enum qc_dtype dtype,
                         const struct qc_shape *shape, enum qc_layout layout, struct qc_status *st)
{
    *out = (struct qc_plan_operand){.view = qc_view_of(dtype, shape, layout, NULL)};
    out->storage = qc_plan_new_storage(p, qc_view_count(&out->view) * qc_dtype_size(dtype), st);
    return out->storage != 0;
}

void qc_plan_touch(struct qc_plan *p, const struct qc_plan_operand *o, size_t time)
{
    if (!o->storage) return;
    struct qc_storage *s = &p->storages[o->storage];
    if (s->first == SIZE_MAX) s->first = time;
    if (time > s->last) s->last = time;
}

void qc_plan_note_unsupported(struct qc_plan_binding *b, const struct qc_status *why)
{
    struct qc_status *all = &b->unsupported;
    const size_t used = strlen(all->message);
    if (b->unsupported_count++ == 0)
        *all = *why;
    else if (used < sizeof all->message)
        qc_text(all->message + used, (unsigned)(sizeof all->message - used), "; %s", why->message);
}

static bool prepare_plan_emit(struct qc_plan_binding *b, struct qc_step *s, const struct qc_step_def *d,
                              struct qc_status *st)
{
    struct qc_view in[QC_PLAN_INPUTS + 2], out[QC_PLAN_OUTPUTS];
    struct qc_prepare p = {.graph = b->g,
                           .node = s->node,
                           .input_count = d->input_count,
                           .output_count = d->output_count,
                           .in = in,
                           .out = out,
                           .in_scales = d->in_scales,
                           .out_scales = d->out_scales,
                           .fusion = d->fusion,
                           .isa = b->plan->isa,
                           .accumulator = b->plan->accumulator,
                           .many_runs = b->plan->many_runs,
                           .int16 = b->plan->int16,
                           .watch = b->plan->watch,
                           .arena = b->plan->arena,
                           .packs = b->plan->packs,
                           .uses = b->readers};
    struct qc_status own = QC_STATUS_INIT;
    char label[QC_LABEL];
    for (unsigned i = 0; i < d->input_count; i++) {
        in[i] = d->in[i].view;
        p.affine = p.affine || !d->in_scales[i].identity;
    }
    for (unsigned i = 0; i < d->output_count; i++) {
        out[i] = d->out[i].view;
        p.affine = p.affine || !d->out_scales[i].identity;
    }
    p.contract = qc_plan_contract(b->plan, s->node, in, d->input_count);
    if (qc_kernel_prepare(&s->kernel, &p, &own)) {
        s->state = p.state;
        s->scratch = p.scratch;
        s->detail = p.detail;
        s->overflow_channels = p.overflow_channels;
        b->plan->packed_bytes += p.constant_bytes;
        for (unsigned i = 0; i < d->input_count && i < 64; i++)
            if (p.packed >> i & 1) s->in[i].view.data = NULL;
        return true;
    }
    if (p.state && s->kernel->release) s->kernel->release(p.state);
    if (s->node) {
        const char *name = s->node->name ? s->node->name : qc_value_label(label, b->g, s->node->outputs);
        qc_where(&own, "%s '%s'", qc_op_info(s->node->op)->name, name);
    }
    if (own.code == QC_UNSUPPORTED) {
        s->kernel = NULL;
        qc_plan_note_unsupported(b, &own);
        return true;
    }
    if (st->code == QC_OK) *st = own;
    return false;
}

/* Returns room for a step behind those there are. */
static struct qc_step *next_step(struct qc_plan *p, struct qc_status *st)
{
    struct qc_step *more = qc_grown(p->steps, p->step_count, &p->step_capacity, sizeof *more, st);
    if (!more) return NULL;
    p->steps = more;
    return &more[p->step_count];
}

bool qc_plan_emit(struct qc_plan_binding *b, const struct qc_step_def *d, struct qc_status *st)
{
    struct qc_plan *p = b->plan;
    size_t elements = 0;
    for (unsigned i = 0; i < d->output_count; i++) elements += qc_view_count(&d->out[i].view);
    if (elements == 0) {
        for (unsigned i = 0; i < d->output_count; i++) qc_plan_touch(p, &d->out[i], p->step_count);
        return true;
    }
    struct qc_step *s = next_step(p, st);
    if (!s) return false;
    *s = (struct qc_step){.kernel = d->kernel,
                          .node = d->node ? &b->g->nodes[d->node] : NULL,
                          .label = d->label ? d->label : d->kernel->name,
                          .input_count = d->input_count,
                          .output_count = d->output_count};
    s->in = qc_arena_dup(p->arena, d->in, d->input_count, sizeof *d->in, st);
    s->out = qc_arena_dup(p->arena, d->out, d->output_count, sizeof *d->out, st);
    if (!s->in || !s->out || !prepare_plan_emit(b, s, d, st)) return false;
    if (!s->kernel) return true;
    const size_t time = ++p->step_count;
    for (unsigned i = 0; i < d->input_count; i++) qc_plan_touch(p, &d->in[i], time);
    for (unsigned i = 0; i < d->output_count; i++) qc_plan_touch(p, &d->out[i], time);
    if (s->scratch > p->scratch_bytes) p->scratch_bytes = s->scratch;
    return true;
}

bool qc_plan_emit_making(struct qc_plan_binding *b, const struct qc_step_def *d, struct qc_status *st)
{
    struct qc_plan *p = b->plan;
    struct qc_step *s = next_step(p, st);
    if (!s) return false;
    *s = (struct qc_step){.kernel = d->kernel,
                          .node = &b->g->nodes[d->node],
                          .label = d->kernel->name,
                          .input_count = d->input_count,
                          .made = p->made_count,
                          .made_count = d->output_count};
    if (!(s->in = qc_arena_dup(p->arena, d->in, d->input_count, sizeof *d->in, st))) return false;
    /* Steps of kernels without `make` are prepared at run time, when the inputs are known. */
    if (d->kernel->make && !prepare_plan_emit(b, s, d, st)) return false;
    if (!s->kernel) return true;
    const size_t time = ++p->step_count;
    for (unsigned i = 0; i < d->input_count; i++) qc_plan_touch(p, &d->in[i], time);
    if (s->scratch > p->scratch_bytes) p->scratch_bytes = s->scratch;
    p->made_count += d->output_count;
    return true;
}

static bool convert_run(const struct qc_run *r, struct qc_status *st)
{
    qc_view_copy(&r->out[0], &r->in[0]);
    return true;
}

QC_KERNEL(convert, .halves = true, .order = QC_ORDER_ANY, .run = convert_run);

/* Stored integers q = v + zero point of affine graph outputs. */
struct store {
    size_t count;
    int axis;
    const int32_t *zero_point;
    enum qc_dtype dtype;
};

static bool store_prepare(struct qc_prepare *p, struct qc_status *st)
{
    const struct qc_scales *in = &p->in_scales[0];
    struct store *s = QC_NEW(p->arena, struct store, st);
    if (!s) return false;
    *s = (struct store){.count = in->count, .axis = in->axis, .dtype = p->out[0].dtype};
    s->zero_point = qc_arena_dup(p->arena, in->zero_point, in->count, sizeof *in->zero_point, st);
    p->state = s;
    return s->zero_point != NULL;
}

static void store_each(void *user, int64_t n, void *const data[], const int64_t stride[])
{
    const struct store *c = user;
    const int32_t zero = *c->zero_point;
    const float *x = data[1];
    for (int64_t i = 0; i < n; i++) {
        const float v = x[i * stride[1]];
        const int64_t q = (int64_t)v + zero, at = i * stride[0];
        if (c->dtype == QC_F32)
            ((float *)data[0])[at] = v + (float)zero;
        else if (qc_dtype_size(c->dtype) == 1)
            ((uint8_t *)data[0])[at] = (uint8_t)q;
        else if (qc_dtype_size(c->dtype) == 2)
            ((uint16_t *)data[0])[at] = (uint16_t)q;
        else
            ((uint32_t *)data[0])[at] = (uint32_t)q;
    }
}

static bool store_run(const struct qc_run *r, struct qc_status *st)
{
    const struct store *s = r->state;
    struct qc_view y = r->out[0], x = r->in[0];
    if (s->count > 1) y.dim[s->axis] = x.dim[s->axis] = 1;
    for (size_t c = 0; c < s->count; c++) {
        struct store call = *s;
        call.zero_point += c;
        if (s->count > 1) {
            y.data = (char *)r->out[0].data + (int64_t)c * y.stride[s->axis] * (int64_t)qc_dtype_size(y.dtype);
            x.data = (char *)r->in[0].data + (int64_t)c * x.stride[s->axis] * (int64_t)qc_dtype_size(x.dtype);
        }
        qc_view_each(2, QC_VIEWS(&y, &x), store_each, &call);
    }
    return true;
}

QC_KERNEL(store, .order = QC_ORDER_ANY, .prepare = store_prepare, .run = store_run);
