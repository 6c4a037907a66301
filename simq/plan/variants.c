// SPDX-License-Identifier: Apache-2.0
#include "simq/plan/plan.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/budget.h"
#include "base/checked.h"
#include "base/scope.h"

/* Plans kept for all workers, and runners kept for each worker: enough for texts of many lengths and images of a few
   sizes. */
enum { PLANS_MAX = 64, RUNNERS_MAX = 16 };

struct variant {
    struct qc_shape *shapes; /* [inputs] */
    struct qc_plan *plan;
    size_t constant_bytes;
    unsigned users; /* runners */
    uint64_t used;  /* time of its last use */
};

struct qc_variants {
    struct qc_arena *arena;
    struct qc_graph *graph;
    struct qc_plan_options options;
    pthread_mutex_t lock;
    uint64_t time;
    size_t count, capacity;
    size_t idle; /* limit on the bytes of unused plans; SIZE_MAX: none */
    struct variant **all;
};

struct holder {
    struct variant *variant;
    struct qc_runner *runner;
    uint64_t used;
};

struct qc_variant_runners {
    struct qc_variants *of;
    uint64_t time;
    size_t count;
    struct holder held[RUNNERS_MAX];
};

static void free_variant(struct variant *v)
{
    if (!v) return;
    qc_plan_free(v->plan);
    free(v->shapes);
    free(v);
}

bool qc_variants_new(struct qc_variants **out, const struct qc_graph *g, const struct qc_plan_options *options,
                     struct qc_status *st)
{
    struct qc_variants *v;
    if (!QC_NEW_OWNER(v, st)) return false;
    pthread_mutex_init(&v->lock, NULL);
    v->idle = SIZE_MAX;
    v->graph = qc_graph_ref(g);
    if (options) v->options = *options;
    v->options.observed =
        qc_arena_dup(v->arena, v->options.observed, v->options.observed_count, sizeof *v->options.observed, st);
    return QC_HAND_OVER(v->options.observed, out, v, qc_variants_free);
}

void qc_variants_free(struct qc_variants *v)
{
    if (!v) return;
    for (size_t i = 0; i < v->count; i++) free_variant(v->all[i]);
    free(v->all);
    qc_graph_free(v->graph);
    qc_arena_free(v->arena);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

static bool same_shapes(const struct qc_variants *v, const struct qc_shape *a, const struct qc_shape *b)
{
    for (size_t i = 0; i < v->graph->input_count; i++)
        if (!qc_shape_equal(&a[i], &b[i])) return false;
    return true;
}

/* Frees unused plans, the least recently used first, until there is room for one more and `idle` is met. */
static void forget_oldest(struct qc_variants *v)
{
    for (;;) {
        size_t oldest = SIZE_MAX, idle = 0;
        for (size_t i = 0; i < v->count; i++) {
            const struct variant *x = v->all[i];
            if (x->users) continue;
            if (oldest == SIZE_MAX || x->used < v->all[oldest]->used) oldest = i;
            idle = idle > SIZE_MAX - x->constant_bytes ? SIZE_MAX : idle + x->constant_bytes;
        }
        if (oldest == SIZE_MAX || (v->count < PLANS_MAX && idle <= v->idle)) return;
        free_variant(v->all[oldest]);
        v->all[oldest] = v->all[--v->count];
    }
}

static struct variant *make_variants(struct qc_variants *v, const struct qc_shape *shapes, struct qc_status *st)
{
    const size_t bytes = v->graph->input_count * sizeof *shapes;
    forget_oldest(v);
    struct variant **more = qc_grown(v->all, v->count, &v->capacity, sizeof(struct variant *), st);
    if (!more) return NULL;
    v->all = more;
    struct variant *x = calloc(1, sizeof *x);
    if (x) x->shapes = malloc(bytes + 1);
    if (!x || !x->shapes)
        qc_fail_memory(st, bytes);
    else if (qc_plan_new(&x->plan, v->graph, shapes, &v->options, st)) {
        if (bytes) memcpy(x->shapes, shapes, bytes);
        x->constant_bytes = qc_plan_constant_bytes(x->plan);
        return v->all[v->count++] = x;
    }
    free_variant(x);
    return NULL;
}

/* Returns the plan for the shapes, made if necessary, and adds `users` to its users. */
static struct variant *variant_for(struct qc_variants *v, const struct qc_shape *shapes, unsigned users,
                                   struct qc_status *st)
{
    struct variant *found = NULL;
    pthread_mutex_lock(&v->lock);
    for (size_t i = 0; i < v->count && !found; i++)
        if (same_shapes(v, v->all[i]->shapes, shapes)) found = v->all[i];
    if (!found) found = make_variants(v, shapes, st);
    if (found) {
        found->users += users;
        found->used = ++v->time;
    }
    pthread_mutex_unlock(&v->lock);
    return found;
}

bool qc_variants_plan(const struct qc_plan **out, struct qc_variants *v, const struct qc_shape *shapes,
                      struct qc_status *st)
{
    const struct variant *x = variant_for(v, shapes, 0, st);
    if (x) *out = x->plan;
    return x != NULL;
}

void qc_variants_bound(struct qc_variants *v, size_t idle)
{
    v->idle = idle;
}

static void let_go(struct qc_variant_runners *r, struct holder *h)
{
    qc_runner_free(h->runner);
    pthread_mutex_lock(&r->of->lock);
    h->variant->users--;
    pthread_mutex_unlock(&r->of->lock);
}

bool qc_variant_runners_new(struct qc_variant_runners **out, const struct qc_variants *v, struct qc_status *st)
{
    struct qc_variant_runners *r = calloc(1, sizeof *r);
    if (!r) return qc_fail_memory(st, sizeof *r);
    r->of = (struct qc_variants *)(uintptr_t)v; /* plans of steps are const, but this cache is guarded by a lock */
    *out = r;
    return true;
}

void qc_variant_runners_free(struct qc_variant_runners *r)
{
    if (!r) return;
    for (size_t i = 0; i < r->count; i++) let_go(r, &r->held[i]);
    free(r);
}

/* Makes a runner and its plan. Fails with QC_MACHINE if there is no memory for them. */
static bool make_holder(struct holder *out, struct qc_variant_runners *r, const struct qc_shape *shapes,
                        struct qc_status *st)
{
    const bool counted = r->of->idle != SIZE_MAX; /* the memory of a bounded number of runners was asked for before */
    struct holder h = {.variant = variant_for(r->of, shapes, 1, st), .used = ++r->time};
    if (!h.variant) return false;
    const struct qc_budget *b = r->of->options.budget ? r->of->options.budget : &r->of->graph->budget;
    const size_t bytes = qc_plan_runner_bytes(h.variant->plan);
    size_t all = bytes; /* together with the runners that are kept it may have as much memory as one run */
    for (size_t i = 0; i < r->count; i++) all = qc_sum_at_most(all, qc_plan_runner_bytes(r->held[i].variant->plan));
    if (!(counted || ((!r->count || qc_budget_run(b, all, 0, st)) && qc_budget_hold(b, bytes, st))) ||
        !qc_runner_new(&h.runner, h.variant->plan, st)) {
        let_go(r, &h);
        return false;
    }
    *out = h;
    return true;
}

bool qc_variant_runner(struct qc_runner **out, struct qc_variant_runners *r, const struct qc_shape *shapes,
                       struct qc_status *st)
{
    for (size_t i = 0; i < r->count; i++) {
        if (!same_shapes(r->of, r->held[i].variant->shapes, shapes)) continue;
        r->held[i].used = ++r->time;
        *out = r->held[i].runner;
        return true;
    }
    while (r->count && (r->count == RUNNERS_MAX || r->of->idle != SIZE_MAX)) { /* free memory before a plan is made */
        size_t oldest = 0;
        for (size_t i = 1; i < r->count; i++)
            if (r->held[i].used < r->held[oldest].used) oldest = i;
        let_go(r, &r->held[oldest]);
        r->held[oldest] = r->held[--r->count];
    }
    struct holder h;
    struct qc_status why = QC_STATUS_INIT;
    bool ok = make_holder(&h, r, shapes, &why);
    if (!ok && why.code == QC_MACHINE && r->count) {
        while (r->count) let_go(r, &r->held[--r->count]);
        struct qc_variants *v = r->of;
        pthread_mutex_lock(&v->lock);
        for (size_t i = v->count; i-- > 0;) {
            if (v->all[i]->users) continue;
            free_variant(v->all[i]);
            v->all[i] = v->all[--v->count];
        }
        pthread_mutex_unlock(&v->lock);
        ok = make_holder(&h, r, shapes, st);
    } else if (!ok) {
        qc_fail(st, why.code, "%s", why.message);
    }
    if (!ok) return false;
    r->held[r->count++] = h;
    *out = h.runner;
    return true;
}
