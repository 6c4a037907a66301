// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>

#include "base/pages.h"
#include "base/pool.h"
#include "simq/plan/plan_parts.h"

struct qc_runner {
    const struct qc_plan *plan;
    char *buffer;        /* storages, then scratch */
    struct qc_run *runs; /* [step_count] */
    bool *open;          /* [step_count] */
    struct qc_view *views;
};

static struct qc_view bound(const struct qc_runner *r, const struct qc_operand *o)
{
    struct qc_view v = o->view;
    if (o->storage) v.data = r->buffer + r->plan->storages[o->storage].offset + o->offset;
    return v;
}

static size_t view_count(const struct qc_plan *p)
{
    size_t n = 0;
    for (size_t i = 0; i < p->step_count; i++) n += p->steps[i].input_count + p->steps[i].output_count;
    return n;
}

static size_t buffer_size(const struct qc_plan *p)
{
    return qc_pages_bytes((p->buffer_bytes + p->scratch_bytes + 127) / 64 * 64);
}

size_t qc_plan_runner_bytes(const struct qc_plan *p)
{
    return sizeof(struct qc_runner) + buffer_size(p) + (p->step_count + 1) * (sizeof(struct qc_run) + sizeof(bool)) +
           (view_count(p) + 1) * sizeof(struct qc_view);
}

bool qc_runner_new(struct qc_runner **out, const struct qc_plan *p, struct qc_status *st)
{
    struct qc_runner *r = calloc(1, sizeof *r);
    const int threads = qc_pool_hold();
    bool ok = false;
    if (r) {
        r->plan = p;
        r->buffer = qc_pages_new(buffer_size(p));
        r->runs = calloc(p->step_count + 1, sizeof *r->runs);
        r->open = calloc(p->step_count + 1, sizeof *r->open);
        r->views = calloc(view_count(p) + 1, sizeof *r->views);
    }
    if (!r || !r->buffer || !r->runs || !r->open || !r->views) {
        qc_fail_memory(st, qc_plan_runner_bytes(p));
        goto out;
    }
    memset(r->buffer, 0, buffer_size(p));
    struct qc_view *v = r->views;
    for (size_t i = 0; i < p->step_count; i++) {
        const struct qc_step *s = &p->steps[i];
        struct qc_run *run = &r->runs[i];
        *run = (struct qc_run){.state = s->state,
                               .input_count = s->input_count,
                               .output_count = s->output_count,
                               .in = v,
                               .out = v + s->input_count,
                               .scratch = r->buffer + p->buffer_bytes};
        for (unsigned k = 0; k < s->input_count; k++) *v++ = bound(r, &s->in[k]);
        for (unsigned k = 0; k < s->output_count; k++) *v++ = bound(r, &s->out[k]);
        if (!s->kernel->open) continue;
        if (!s->kernel->open(&run->local, run, st)) goto out;
        r->open[i] = true;
    }
    *out = r;
    ok = true;
out:
    qc_pool_release(threads);
    if (!ok) qc_runner_free(r);
    return ok;
}

void qc_runner_free(struct qc_runner *r)
{
    if (!r) return;
    for (size_t i = 0; r->runs && r->open && i < r->plan->step_count; i++)
        if (r->open[i] && r->plan->steps[i].kernel->close) r->plan->steps[i].kernel->close(r->runs[i].local);
    free(r->buffer);
    free(r->runs);
    free(r->open);
    free(r->views);
    free(r);
}

struct qc_view qc_runner_input(struct qc_runner *r, size_t k)
{
    return bound(r, &r->plan->inputs[k]);
}

struct qc_view qc_runner_output(struct qc_runner *r, size_t k)
{
    return bound(r, &r->plan->outputs[k]);
}

const struct qc_sums *qc_runner_sums(const struct qc_runner *r, size_t k)
{
    const size_t i = qc_plan_overflow_step(r->plan, k);
    return r->plan->steps[i].kernel->sums(r->runs[i].local);
}

static bool where(const struct qc_runner *r, size_t step, struct qc_status *st)
{
    const struct qc_node *n = r->plan->steps[step].node;
    char label[QC_LABEL];
    if (!n) return qc_where(st, "output");
    return qc_where(st, "%s '%s'", qc_op_info(n->op)->name,
                    n->name ? n->name : qc_value_label(label, r->plan->graph, n->outputs));
}

bool qc_runner_run(struct qc_runner *r, qc_observe_fn *observe, void *user, struct qc_status *st)
{
    const struct qc_plan *p = r->plan;
    const int threads = qc_pool_hold();
    size_t report = 0;
    bool ok = false;
    for (size_t i = 0;; i++) {
        for (; report < p->report_count && p->reports[report].after == i; report++) {
            if (!observe) continue;
            const struct qc_view v = bound(r, &p->reports[report].what);
            if (!observe(user, p->reports[report].index, &v, st)) goto out;
        }
        if (i == p->step_count) break;
        if (!p->steps[i].kernel->run(&r->runs[i], st)) {
            where(r, i, st);
            goto out;
        }
    }
    ok = true;
out:
    qc_pool_release(threads);
    return ok;
}
