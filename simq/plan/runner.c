// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/budget.h"
#include "base/pool.h"
#include "base/resident.h"
#include "simq/plan/plan.h"
#include "simq/plan/plan_parts.h"

struct qc_runner {
    const struct qc_plan *plan;
    char *buffer;        /* storages, then scratch */
    bool borrowed;       /* the caller owns the buffer */
    struct qc_run *runs; /* [step_count] */
    bool *open;          /* [step_count] */
    struct qc_view *views;
    struct qc_tensor **made;         /* [made_count]: results of the last run whose shapes depend on data */
    size_t made_bytes;               /* of them */
    struct qc_variant_runners *rest; /* for the graph after the cut; with free shapes, for the whole graph */
    struct qc_runner *last;          /* the runner in `rest` of the last run; with free shapes, of the next run */
    double *seconds;                 /* [step_count] processor time of each step, or NULL */
};

static struct qc_view bound_view(const struct qc_runner *r, const struct qc_plan_operand *o)
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
    if (p->open) return sizeof(struct qc_runner) + p->open->runner_bytes;
    return sizeof(struct qc_runner) + buffer_size(p) + (p->step_count + 1) * (sizeof(struct qc_run) + sizeof(bool)) +
           (view_count(p) + 1) * sizeof(struct qc_view);
}

size_t qc_plan_buffer_bytes(const struct qc_plan *p)
{
    return p->open ? 0 : buffer_size(p);
}

bool qc_runner_new(struct qc_runner **out, const struct qc_plan *p, struct qc_status *st)
{
    char *buffer = qc_pages_new(buffer_size(p));
    if (!buffer) return qc_fail_memory(st, qc_plan_runner_bytes(p));
    memset(buffer, 0, buffer_size(p));
    if (!qc_runner_new_in(out, p, buffer, st)) {
        free(buffer);
        return false;
    }
    (*out)->borrowed = false;
    return true;
}

bool qc_runner_new_in(struct qc_runner **out, const struct qc_plan *p, char *buffer, struct qc_status *st)
{
    struct qc_runner *r = calloc(1, sizeof *r);
    const int threads = qc_pool_hold();
    bool ok = false;
    if (r) {
        r->plan = p;
        r->buffer = buffer;
        r->borrowed = true;
        r->runs = calloc(p->step_count + 1, sizeof *r->runs);
        r->open = calloc(p->step_count + 1, sizeof *r->open);
        r->views = calloc(view_count(p) + 1, sizeof *r->views);
        r->made = calloc(p->made_count + 1, sizeof(struct qc_tensor *));
    }
    if (!r || !r->runs || !r->open || !r->views || !r->made) {
        qc_fail_memory(st, qc_plan_runner_bytes(p));
        goto out;
    }
    if (p->rest && !qc_variant_runners_new(&r->rest, p->rest->variants, st)) goto out;
    if (p->open && !qc_variant_runners_new(&r->rest, p->open->variants, st)) goto out;
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
        for (unsigned k = 0; k < s->input_count; k++) *v++ = bound_view(r, &s->in[k]);
        for (unsigned k = 0; k < s->output_count; k++) *v++ = bound_view(r, &s->out[k]);
        if (!s->kernel->open || (s->made_count && !s->kernel->make)) continue;
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
    qc_variant_runners_free(r->rest);
    for (size_t i = 0; r->made && i < r->plan->made_count; i++) qc_tensor_unref(r->made[i]);
    free(r->made);
    if (!r->borrowed) free(r->buffer);
    free(r->runs);
    free(r->open);
    free(r->views);
    free(r);
}

bool qc_runner_shapes(struct qc_runner *r, const struct qc_shape *shapes, struct qc_status *st)
{
    if (!r->plan->open) return true;
    r->last = NULL;
    return qc_variant_runner(&r->last, r->rest, shapes, st);
}

struct qc_view qc_runner_input(struct qc_runner *r, size_t k)
{
    if (r->plan->open) return qc_runner_input(r->last, k);
    return bound_view(r, &r->plan->inputs[k]);
}

struct qc_view qc_runner_output(struct qc_runner *r, size_t k)
{
    if (r->plan->open) return r->last ? qc_runner_output(r->last, k) : QC_VIEW_ABSENT;
    const struct qc_plan_output *o = &r->plan->whole[k];
    if (!o->rest) return bound_view(r, &r->plan->outputs[o->index]);
    return r->last ? qc_runner_output(r->last, o->index) : QC_VIEW_ABSENT;
}

const struct qc_sums *qc_runner_sums(const struct qc_runner *r, size_t k)
{
    const size_t i = qc_plan_overflow_step(r->plan, k);
    return r->plan->steps[i].kernel->sums(r->runs[i].local);
}

/* Runs a step whose result shapes depend on data. */
static bool make_runner(struct qc_runner *r, size_t step, struct qc_status *st)
{
    const struct qc_step *s = &r->plan->steps[step];
    struct qc_tensor **results = &r->made[s->made];
    for (size_t i = 0; i < s->made_count; i++) {
        if (results[i]) r->made_bytes -= results[i]->bytes;
        qc_tensor_unref(results[i]);
        results[i] = NULL;
    }
    const bool ok = s->kernel->make
                        ? s->kernel->make(results, &r->runs[step], st)
                        : qc_evaluate_shapeless(results, r->plan->graph, s->node, r->runs[step].in, r->made_bytes, st);
    for (size_t i = 0; i < s->made_count; i++)
        if (results[i]) r->made_bytes += results[i]->bytes;
    return ok && (!s->kernel->make || qc_budget_run(&r->plan->graph->budget, r->made_bytes, 0, st));
}

struct passing {
    const struct qc_rest *rest;
    qc_observe_fn *observe;
    void *user;
};

static bool pass_on(void *user, size_t index, const struct qc_view *v, struct qc_status *st)
{
    const struct passing *p = user;
    return p->observe(p->user, p->rest->observed[index], v, st);
}

static struct qc_view rest_input(const struct qc_runner *r, size_t k)
{
    const struct qc_rest_input *in = &r->plan->rest->inputs[k];
    if (in->made) return qc_view_of_tensor(r->made[r->plan->made_at[in->index]]);
    return bound_view(r, &r->plan->outputs[in->index]);
}

/* Runs the graph after data-dependent shapes, with the plan for the shapes of this run. */
static bool run_rest(struct qc_runner *r, bool whole, qc_observe_fn *observe, void *user, struct qc_status *st)
{
    const struct qc_rest *rest = r->plan->rest;
    struct passing p = {.rest = rest, .observe = observe, .user = user};
    struct qc_shape *shapes = calloc(rest->input_count + 1, sizeof *shapes);
    if (!shapes) return qc_fail_memory(st, rest->input_count * sizeof *shapes);
    for (size_t k = 0; k < rest->input_count; k++) {
        const struct qc_view v = rest_input(r, k);
        shapes[k] = qc_shape_of(v.rank, v.dim);
    }
    r->last = NULL;
    struct qc_runner *next = NULL;
    const bool ok = qc_variant_runner(&next, r->rest, shapes, st);
    free(shapes);
    if (!ok) return false;
    for (size_t k = 0; k < rest->input_count; k++) {
        const struct qc_view from = rest_input(r, k), to = qc_runner_input(next, k);
        if (qc_view_count(&to)) qc_view_copy(&to, &from);
    }
    if (!(whole ? qc_runner_run : qc_runner_observe)(next, observe ? pass_on : NULL, &p, st)) return false;
    r->last = next;
    return true;
}

void qc_runner_time_steps(struct qc_runner *r, double *seconds)
{
    r->seconds = seconds;
}

/* Processor time of this thread: other threads and processes do not distort it. */
static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Runs the first `steps` steps, and reports values that are complete by then. */
static bool run_steps(struct qc_runner *r, size_t steps, qc_observe_fn *observe, void *user, struct qc_status *st)
{
    const struct qc_plan *p = r->plan;
    size_t report = 0;
    for (size_t i = 0;; i++) {
        for (; report < p->report_count && p->reports[report].after == i; report++) {
            if (!observe) continue;
            const struct qc_view v = bound_view(r, &p->reports[report].what);
            if (!observe(user, p->reports[report].index, &v, st)) return false;
        }
        if (i == steps) return true;
        const struct qc_step *s = &r->plan->steps[i];
        const double begin = r->seconds ? now() : 0;
        const bool ok = s->made_count ? make_runner(r, i, st) : s->kernel->run(&r->runs[i], st);
        if (r->seconds) r->seconds[i] += now() - begin;
        if (ok) continue;
        const struct qc_node *n = s->node;
        char label[QC_LABEL];
        if (!n) return qc_where(st, "output");
        return qc_where(st, "%s '%s'", qc_op_info(n->op)->name,
                        n->name ? n->name : qc_value_label(label, p->graph, n->outputs));
    }
}

static bool run_plan(struct qc_runner *r, bool whole, qc_observe_fn *observe, void *user, struct qc_status *st)
{
    const struct qc_plan *p = r->plan;
    if (p->open) return run_plan(r->last, whole, observe, user, st);
    const int threads = qc_pool_hold();
    const bool ok = run_steps(r, whole ? p->step_count : p->observing_steps, observe, user, st) &&
                    (!p->rest || run_rest(r, whole, observe, user, st));
    qc_pool_release(threads);
    return ok;
}

bool qc_runner_run(struct qc_runner *r, qc_observe_fn *observe, void *user, struct qc_status *st)
{
    return run_plan(r, true, observe, user, st);
}

bool qc_runner_observe(struct qc_runner *r, qc_observe_fn *observe, void *user, struct qc_status *st)
{
    return run_plan(r, false, observe, user, st);
}
