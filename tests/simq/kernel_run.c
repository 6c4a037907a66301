// SPDX-License-Identifier: Apache-2.0
#include "kernel_run.h"

#include <stdlib.h>
#include <string.h>

enum { PORTS = 64 };

struct port {
    struct qc_view view;
    void *memory;
};

static bool lay_out(struct port *p, const struct qc_shape *shape, enum qc_dtype t, enum memory memory,
                    struct qc_status *st)
{
    enum { GAP = 3 };
    p->view = qc_view_of(t, shape, memory == MEMORY_LAST ? QC_LAYOUT_LAST : QC_LAYOUT_ROW, NULL);
    const size_t count = qc_view_count(&p->view);
    int64_t last = 0, step = GAP;
    switch (memory) {
    case MEMORY_FLIPPED:
        for (int d = 0; d < p->view.rank; d++) {
            last += (p->view.dim[d] - 1) * p->view.stride[d];
            p->view.stride[d] = -p->view.stride[d];
        }
        break;
    case MEMORY_SPREAD:
        for (int d = 0; d < p->view.rank; d++) {
            p->view.stride[d] = step;
            step *= p->view.dim[d];
        }
        break;
    case MEMORY_ROW:
    case MEMORY_LAST:
    case MEMORY_IN_PLACE:
    case MEMORY_COUNT: break;
    }
    const size_t bytes = ((count * GAP + 1) * qc_dtype_size(p->view.dtype) + 127) / 64 * 64;
    p->memory = aligned_alloc(64, bytes);
    if (!p->memory) return qc_fail_memory(st, bytes);
    memset(p->memory, 0xa5, bytes);
    p->view.data = p->memory;
    if (count) p->view.data = (char *)p->memory + last * (int64_t)qc_dtype_size(t);
    return true;
}

static bool bring_in(struct port *p, const struct qc_tensor *t, enum qc_dtype dtype, enum memory memory,
                     struct qc_status *st)
{
    if (!lay_out(p, &t->shape, dtype, memory, st)) return false;
    const struct qc_view from = qc_view_of(dtype, &t->shape, QC_LAYOUT_ROW, t->data);
    qc_view_copy(&p->view, &from);
    return true;
}

static struct qc_tensor *bring_out(const struct qc_view *v, struct qc_status *st)
{
    const struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    struct qc_tensor *t = qc_tensor_new(v->dtype, &shape, st);
    if (!t) return NULL;
    const struct qc_view to = qc_view_of(v->dtype, &shape, QC_LAYOUT_ROW, t->data);
    qc_view_copy(&to, v);
    return t;
}

/* The nearest that the kernel may be given. */
static enum memory memory_for(enum qc_kernel_order order, enum memory wanted)
{
    switch (order) {
    case QC_ORDER_MATRIX:
    case QC_ORDER_ROW: return wanted == MEMORY_IN_PLACE ? wanted : MEMORY_ROW;
    case QC_ORDER_LAST: return wanted == MEMORY_ROW || wanted == MEMORY_IN_PLACE ? wanted : MEMORY_LAST;
    case QC_ORDER_ANY: break;
    }
    return wanted;
}

bool kernel_run(struct qc_tensor **outputs, const struct qc_graph *g, qc_id node,
                const struct qc_tensor *const inputs[], const struct kernel_run_options *options, struct qc_status *st)
{
    static const float one = 1;
    static const int32_t zero = 0;
    const struct qc_node *n = &g->nodes[node];
    const struct qc_kernel *k = qc_kernel_of(n->op);
    const enum memory memory = memory_for(k->order, options->memory);
    struct port in[PORTS] = {0}, out[PORTS] = {0};
    struct qc_view early[PORTS], run_in[PORTS], early_out[PORTS], run_out[PORTS];
    struct qc_scales scales[PORTS];
    struct qc_arena *arena = qc_arena_new();
    struct qc_prepare p = {.graph = g,
                           .node = n,
                           .input_count = n->input_count,
                           .output_count = n->output_count,
                           .in = early,
                           .out = early_out,
                           .in_scales = options->in_scales ? options->in_scales : scales,
                           .out_scales = scales,
                           .affine = options->in_scales != NULL,
                           .arena = arena};
    void *scratch = NULL, *local = NULL;
    bool ok = false;
    if (!arena || n->input_count > PORTS || n->output_count > PORTS) goto out;
    for (unsigned i = 0; i < PORTS; i++)
        scales[i] = (struct qc_scales){.identity = true, .count = 1, .scale = &one, .zero_point = &zero};
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *given = inputs ? inputs[i] : NULL, *constant = qc_constant_of(g, n->inputs[i]);
        const bool known = !given && !(options->late >> i & 1);
        in[i].view = (struct qc_view){.rank = -1};
        if ((given || constant) && !bring_in(&in[i], given ? given : constant, qc_value(g, n->inputs[i])->type.dtype,
                                             known || (i && k->order == QC_ORDER_LAST) ? MEMORY_ROW : memory, st))
            goto out;
        early[i] = run_in[i] = in[i].view;
        if (!known) early[i].data = NULL;
    }
    for (unsigned i = 0; i < n->output_count; i++) {
        const struct qc_type *t = &qc_value(g, n->outputs + i)->type;
        if (!lay_out(&out[i], &t->shape, t->dtype, memory == MEMORY_LAST ? MEMORY_LAST : MEMORY_ROW, st)) goto out;
        early_out[i] = run_out[i] = out[i].view;
        early_out[i].data = NULL;
    }
    for (unsigned i = 0; memory == MEMORY_IN_PLACE && i < n->input_count; i++) {
        const bool allowed = k->in_place >> i & 1 && qc_dtype_size(run_in[i].dtype) == qc_dtype_size(run_out[0].dtype);
        if (!allowed || !qc_view_same_order(&run_in[i], &run_out[0])) continue;
        run_out[0].data = out[0].view.data = run_in[i].data;
        break;
    }
    if (!qc_kernel_prepare(&k, &p, st)) goto out;
    scratch = aligned_alloc(64, (p.scratch + 127) / 64 * 64);
    struct qc_run r = {.state = p.state,
                       .input_count = n->input_count,
                       .output_count = n->output_count,
                       .in = run_in,
                       .out = run_out,
                       .scratch = scratch};
    if (!scratch || (k->open && !k->open(&local, &r, st))) goto out;
    r.local = local;
    ok = k->run(&r, st);
    for (unsigned i = 0; ok && i < n->output_count; i++) {
        outputs[i] = bring_out(&out[i].view, st);
        ok = outputs[i] != NULL;
    }
out:
    if (local && k->close) k->close(local);
    if (p.state && k->release) k->release(p.state);
    for (unsigned i = 0; i < PORTS; i++) {
        free(in[i].memory);
        free(out[i].memory);
    }
    free(scratch);
    qc_arena_free(arena);
    return ok;
}
