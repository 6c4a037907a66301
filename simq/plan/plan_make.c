// SPDX-License-Identifier: Apache-2.0
#include "simq/plan/plan.h"

#include <stdlib.h>

#include "base/pool.h"
#include "simq/plan/plan_parts.h"

static bool begin_binding(struct qc_plan_binding *b, struct qc_plan *p, struct qc_status *st)
{
    const size_t values = p->graph->value_count + 1, nodes = p->graph->node_count + 1;
    b->g = p->graph;
    p->tensor_count = values;
    p->tensors = calloc(values, sizeof *p->tensors);
    if (!p->tensors) return qc_fail_memory(st, values * sizeof *p->tensors);
    if (!(p->made_at = QC_NEW_ARRAY(p->arena, size_t, values, st))) return false;
    b->root = QC_NEW_ARRAY(b->arena, qc_id, values, st);
    b->uses = QC_NEW_ARRAY(b->arena, uint32_t, values, st);
    b->user = QC_NEW_ARRAY(b->arena, qc_id, values, st);
    b->is_observed = QC_NEW_ARRAY(b->arena, bool, values, st);
    b->first_observed = QC_NEW_ARRAY(b->arena, size_t, values, st);
    b->next_observed = QC_NEW_ARRAY(b->arena, size_t, p->observed_count, st);
    b->later = QC_NEW_ARRAY(b->arena, bool, values, st);
    b->scales = QC_NEW_ARRAY(b->arena, struct qc_scales, values, st);
    b->held = QC_NEW_ARRAY(b->arena, struct qc_plan_operand, values, st);
    b->turned = QC_NEW_ARRAY(b->arena, struct qc_plan_operand, values, st);
    b->live = QC_NEW_ARRAY(b->arena, bool, nodes, st);
    b->elided = QC_NEW_ARRAY(b->arena, bool, nodes, st);
    b->fused = QC_NEW_ARRAY(b->arena, bool, nodes, st);
    b->groups = QC_NEW_ARRAY(b->arena, struct qc_group, nodes, st);
    if (!b->root || !b->uses || !b->user || !b->is_observed || !b->first_observed || !b->next_observed || !b->later ||
        !b->scales || !b->held || !b->turned || !b->live || !b->elided || !b->fused || !b->groups)
        return false;
    for (size_t i = 0; i < values; i++) b->held[i] = b->turned[i] = QC_OPERAND_ABSENT;
    p->input_count = p->graph->input_count;
    p->output_count = p->graph->output_count;
    p->inputs = QC_NEW_ARRAY(p->arena, struct qc_plan_operand, p->input_count, st);
    p->outputs = QC_NEW_ARRAY(p->arena, struct qc_plan_operand, p->output_count, st);
    return p->inputs && p->outputs;
}

/* Tensors that no step reads any more: their numbers are packed in the state of a kernel. */
static int by_address(const void *a, const void *b)
{
    const uintptr_t x = *(const uintptr_t *)a, y = *(const uintptr_t *)b;
    return x < y ? -1 : x > y;
}

static bool drop_unread(struct qc_plan *p, struct qc_arena *a, struct qc_status *st)
{
    size_t count = p->output_count + p->report_count, n = 0;
    for (size_t i = 0; i < p->step_count; i++) count += p->steps[i].input_count;
    uintptr_t *read = QC_NEW_ARRAY(a, uintptr_t, count, st);
    if (!read) return false;
    for (size_t i = 0; i < p->step_count; i++)
        for (unsigned k = 0; k < p->steps[i].input_count; k++) read[n++] = (uintptr_t)p->steps[i].in[k].view.data;
    for (size_t i = 0; i < p->output_count; i++) read[n++] = (uintptr_t)p->outputs[i].view.data;
    for (size_t i = 0; i < p->report_count; i++) read[n++] = (uintptr_t)p->reports[i].what.view.data;
    qsort(read, n, sizeof *read, by_address);
    for (size_t v = 0; v < p->tensor_count; v++) {
        const uintptr_t data = p->tensors[v] ? (uintptr_t)p->tensors[v]->data : 0;
        if (!p->tensors[v] || (n && bsearch(&data, read, n, sizeof *read, by_address))) continue;
        qc_tensor_unref(p->tensors[v]);
        p->tensors[v] = NULL;
    }
    return true;
}

/* What is asked of single steps and reports. */
static bool index_steps(struct qc_plan *p, struct qc_status *st)
{
    size_t k = 0;
    for (size_t i = 0; i < p->step_count; i++) p->overflow_count += p->steps[i].overflow_channels > 0;
    p->overflow_steps = calloc(p->overflow_count + 1, sizeof *p->overflow_steps);
    p->elements = calloc(p->observed_count + 1, sizeof *p->elements);
    if (!p->overflow_steps || !p->elements)
        return qc_fail_memory(st, (p->overflow_count + p->observed_count + 2) * sizeof *p->elements);
    for (size_t i = 0; i < p->step_count; i++)
        if (p->steps[i].overflow_channels) p->overflow_steps[k++] = i;
    for (size_t i = p->report_count; i-- > 0;)
        p->elements[p->reports[i].index] = qc_view_count(&p->reports[i].what.view);
    const size_t least = p->report_count ? p->reports[p->report_count - 1].after : 0;
    p->observing_steps = p->step_count;
    while (!p->rest && p->observing_steps > least && p->steps[p->observing_steps - 1].kernel->takes_any)
        p->observing_steps--;
    return true;
}

/* Checks that all values together fit in the budget. The message names the step with the largest result. */
static bool within_budget(const struct qc_plan *p, struct qc_status *st)
{
    const struct qc_node *largest = NULL;
    size_t most = 0;
    char label[QC_LABEL];
    if (qc_budget_run(&p->graph->budget, qc_plan_runner_bytes(p), p->input_bytes, st)) return true;
    for (size_t i = 0; i < p->step_count; i++)
        for (unsigned k = 0; p->steps[i].node && k < p->steps[i].output_count; k++) {
            const struct qc_view *v = &p->steps[i].out[k].view;
            const size_t bytes = qc_view_bytes(v);
            if (bytes <= most) continue;
            most = bytes;
            largest = p->steps[i].node;
        }
    if (!largest) return false;
    return qc_where(st, "%s '%s', the largest of %zu steps", qc_op_info(largest->op)->name,
                    qc_node_label(label, p->graph, largest), p->step_count);
}

bool qc_plan_new(struct qc_plan **out, const struct qc_graph *g, const struct qc_shape *shapes,
                 const struct qc_plan_options *options, struct qc_status *st)
{
    struct qc_plan *p = calloc(1, sizeof *p);
    struct qc_plan_binding b = {.plan = p, .arena = qc_arena_new(), .unsupported = QC_STATUS_INIT};
    bool ok = false;
    const int threads = qc_pool_hold();
    if (!p || !b.arena || !(p->arena = qc_arena_new())) {
        qc_fail_memory(st, sizeof *p);
        goto out;
    }
    if (!qc_packed_new(&p->packs, st)) goto out;
    p->observed_count = options ? options->observed_count : 0;
    p->isa = qc_isa_detect(options ? options->isa : QC_ISA_BEST);
    if (options) p->accumulator = options->accumulator;
    if (options) p->contract = options->rounding;
    if (options) p->input_layouts = options->input_layouts;
    if (options) p->depth = options->depth;
    if (options) p->watch = options->watch;
    if (options) p->many_runs = options->many_runs;
    p->int16 = options && options->lowering == QC_LOWERING_INT16;
    if (p->accumulator.bits == 0) p->accumulator = (struct qc_accumulator){.bits = 32, .overflow = QC_OVERFLOW_LAST};
    if (p->accumulator.bits < 2 || p->accumulator.bits > 32) {
        qc_fail(st, QC_USAGE, "an accumulator of %u bits: 2 to 32 are possible", p->accumulator.bits);
        goto out;
    }
    if (options && options->largest_count && qc_plan_is_open(g, shapes)) {
        ok = qc_plan_open(p, g, shapes, options, st);
        if (ok) *out = p;
        goto out;
    }
    b.observed = QC_NEW_ARRAY(b.arena, qc_id, p->observed_count, st);
    if (!b.observed || !qc_plan_specialise(p, b.observed, g, shapes, options, st) || !begin_binding(&b, p, st) ||
        !qc_plan_resolve(&b, st))
        goto out;
    qc_plan_fuse(&b);
    if (!qc_plan_bind(&b, st)) goto out;
    if (b.unsupported_count) {
        qc_fail(st, b.unsupported.code, "%s", b.unsupported.message);
        goto out;
    }
    if (!qc_plan_place(p, st) || !within_budget(p, st) || !drop_unread(p, b.arena, st) || !index_steps(p, st)) goto out;
    *out = p;
    ok = true;
out:
    qc_pool_release(threads);
    qc_arena_free(b.arena);
    if (!ok) qc_plan_free(p);
    return ok;
}

void qc_plan_free(struct qc_plan *p)
{
    if (!p) return;
    for (size_t i = 0; i < p->step_count; i++)
        if (p->steps[i].state && p->steps[i].kernel->release) p->steps[i].kernel->release(p->steps[i].state);
    qc_packed_free(p->packs);
    for (size_t i = 0; p->tensors && i < p->tensor_count; i++) qc_tensor_unref(p->tensors[i]);
    for (size_t i = 0; i < p->copy_count; i++) qc_tensor_unref(p->copies[i]);
    free(p->tensors);
    free(p->copies);
    free(p->steps);
    free(p->storages);
    free(p->reports);
    free(p->elements);
    free(p->overflow_steps);
    if (p->rest) qc_variants_free(p->rest->variants);
    if (p->open) qc_variants_free(p->open->variants);
    qc_graph_free(p->graph);
    qc_arena_free(p->arena);
    free(p);
}

/* Returns the step of the k-th accumulator that can overflow. */
static const struct qc_step *overflowing(const struct qc_plan *p, size_t k)
{
    return &p->steps[p->overflow_steps[k]];
}

size_t qc_plan_overflow_count(const struct qc_plan *p)
{
    return p->overflow_count;
}

qc_id qc_plan_overflow_node(const struct qc_plan *p, size_t k)
{
    return p->origin[overflowing(p, k)->node - p->graph->nodes];
}

size_t qc_plan_overflow_channels(const struct qc_plan *p, size_t k)
{
    return overflowing(p, k)->overflow_channels;
}

size_t qc_plan_overflow_step(const struct qc_plan *p, size_t k)
{
    return (size_t)(overflowing(p, k) - p->steps);
}

bool qc_plan_shapes_known(const struct qc_plan *p)
{
    return !p->rest && !p->open;
}

size_t qc_plan_observed_elements(const struct qc_plan *p, size_t index)
{
    return p->open ? p->open->elements[index] : p->elements[index];
}

size_t qc_plan_constant_bytes(const struct qc_plan *p)
{
    size_t bytes = p->packed_bytes + qc_arena_bytes(p->arena);
    for (size_t i = 0; i < p->tensor_count; i++)
        if (p->tensors[i] && !p->tensors[i]->map) bytes += p->tensors[i]->bytes;
    for (size_t i = 0; i < p->copy_count; i++) bytes += p->copies[i]->bytes;
    return bytes;
}
