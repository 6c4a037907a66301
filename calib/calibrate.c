// SPDX-License-Identifier: Apache-2.0
#include "calib/calibrate.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double qc_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* One observed value and the site it belongs to. */
struct watch {
    qc_id value, site;
};

struct collection {
    struct qc_graph *g;
    const struct qc_calibration_options *options;
    size_t watch_count;
    struct watch *watches;
    struct qc_scan **scans; /* [workers][watch_count] */
    struct qc_histogram **histograms; /* [space_count + 1] */
    float **rows;           /* [workers]: a copy of a value that is not dense */
    size_t *row_sizes;
};

bool qc_calibration_warn(struct qc_calibration *c, struct qc_status *st, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (c->warning_count == c->warning_capacity) {
        size_t capacity = c->warning_capacity ? c->warning_capacity * 2 : 16;
        const char **more = realloc(c->warnings, capacity * sizeof *more);
        if (!more) return qc_fail_memory(st, capacity * sizeof *more);
        c->warnings = more;
        c->warning_capacity = capacity;
    }
    const char *kept = qc_arena_strdup(c->arena, text, st);
    if (kept) c->warnings[c->warning_count++] = kept;
    return kept != NULL;
}

/* Observed values that the data decide; observed constants are scanned once, behind the data. */
static bool find_watches(struct collection *k, struct qc_arena *a, struct qc_status *st)
{
    size_t count = 0;
    for (qc_id s = 1; s <= k->g->space_count; s++) count += k->g->spaces[s].observed_count;
    k->watches = QC_NEW_ARRAY(a, struct watch, count, st);
    if (!k->watches) return false;
    for (qc_id s = 1; s <= k->g->space_count; s++)
        for (size_t i = 0; i < k->g->spaces[s].observed_count; i++) {
            qc_id v = k->g->spaces[s].observed[i];
            if (!qc_constant_of(k->g, v)) k->watches[k->watch_count++] = (struct watch){.value = v, .site = s};
        }
    return true;
}

static const float *dense_copy(struct collection *k, unsigned worker, const struct qc_view *v, size_t n, struct qc_status *st)
{
    if (qc_view_dense(v)) return v->data;
    if (k->row_sizes[worker] < n) {
        float *more = realloc(k->rows[worker], n * sizeof *more);
        if (!more) {
            qc_fail_memory(st, n * sizeof *more);
            return NULL;
        }
        k->rows[worker] = more;
        k->row_sizes[worker] = n;
    }
    struct qc_shape shape = qc_shape_of(v->rank, v->dim);
    struct qc_view row = qc_view_of(QC_F32, &shape, QC_LAYOUT_ROW, k->rows[worker]);
    qc_view_copy(&row, v);
    return k->rows[worker];
}

static bool observe(void *user, const struct qc_unit *at, size_t index, const struct qc_view *v, struct qc_status *st)
{
    struct collection *k = user;
    size_t n = qc_view_count(v);
    const float *x = dense_copy(k, at->worker, v, n, st);
    struct qc_scan *scan = k->scans[at->worker * k->watch_count + index];
    return x && qc_scan_sample(scan, x, n, at->sample, st);
}

static bool new_statistics(struct collection *k, unsigned workers, struct qc_arena *a, struct qc_status *st)
{
    enum qc_need need = k->options->activation->need;
    k->scans = QC_NEW_ARRAY(a, struct qc_scan *, (size_t)workers * k->watch_count, st);
    k->histograms = QC_NEW_ARRAY(a, struct qc_histogram *, k->g->space_count + 1, st);
    k->rows = QC_NEW_ARRAY(a, float *, workers, st);
    k->row_sizes = QC_NEW_ARRAY(a, size_t, workers, st);
    if (!k->scans || !k->histograms || !k->rows || !k->row_sizes) return false;
    for (size_t i = 0; i < workers * k->watch_count; i++)
        if (!qc_scan_new(&k->scans[i], need, st)) return false;
    for (qc_id s = 1; s <= k->g->space_count; s++)
        if (k->g->spaces[s].observed_count && !qc_histogram_new(&k->histograms[s], need, st)) return false;
    return true;
}

/* What a site takes from constants: the table of an embedding, the constant operand of an addition. */
static bool scan_constants(struct collection *k, struct qc_status *st)
{
    struct qc_scan *scan = NULL;
    bool ok = qc_scan_new(&scan, k->options->activation->need, st);
    for (qc_id s = 1; ok && s <= k->g->space_count; s++)
        for (size_t i = 0; ok && i < k->g->spaces[s].observed_count; i++) {
            const struct qc_tensor *t = qc_constant_of(k->g, k->g->spaces[s].observed[i]);
            if (!t) continue;
            if (t->dtype != QC_F32) ok = qc_fail(st, QC_UNSUPPORTED, "constant '%s' is %s, not float32", k->g->spaces[s].name, qc_dtype_info(t->dtype)->name);
            qc_scan_reset(scan);
            ok = ok && qc_scan_values(scan, t->data, t->count, st);
            if (ok) qc_histogram_add_scan(k->histograms[s], scan);
        }
    qc_scan_free(scan);
    return ok;
}

static void free_statistics(struct collection *k, unsigned workers)
{
    for (size_t i = 0; k->scans && i < workers * k->watch_count; i++) qc_scan_free(k->scans[i]);
    for (size_t i = 0; k->histograms && i <= k->g->space_count; i++) qc_histogram_free(k->histograms[i]);
    for (unsigned w = 0; k->rows && w < workers; w++) free(k->rows[w]);
}

struct solving {
    struct qc_calibration *c;
    struct collection *k;
};

static bool solve_site(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct solving *s = user;
    const struct qc_graph *g = s->k->g;
    qc_id id = (qc_id)item + 1;
    const struct qc_histogram *h = s->k->histograms[id];
    (void)worker;
    if (!h) return true;
    const struct qc_calibration_options *o = s->k->options;
    struct qc_statistics statistics = qc_statistics_of(h);
    struct qc_solve request = QC_SOLVE_INIT(qc_space_levels(&g->spaces[id]), g->spaces[id].symmetry);
    struct qc_choice *choice = &s->c->choices[id];
    if (!qc_observer_solve(&choice->range, o->activation, &o->activation_values, &statistics, &request, st))
        return qc_where(st, "site '%s'", g->spaces[id].name);
    choice->seen = h->tally;
    choice->chosen = true;
    choice->method = o->activation->name;
    return true;
}

static bool check_nonfinite(struct qc_calibration *c, const struct qc_graph *g, const struct qc_dataset *data, bool is_error, qc_id id, struct qc_status *st)
{
    const struct qc_tally *t = &c->choices[id].seen;
    unsigned long long nan = t->nan, inf = t->pos_inf + t->neg_inf, first = t->first_bad_sample;
    if (!nan && !inf) return true;
    if (is_error)
        return qc_fail(st, QC_BAD_INPUT, "%s: tensor '%s' has %llu NaN and %llu infinite values, first in sample %llu; mend the data or drop --nonfinite error",
                       qc_dataset_file(data), g->spaces[id].name, nan, inf, first);
    return qc_calibration_warn(c, st, "%s: tensor '%s': %llu NaN and %llu infinite values left out, first in sample %llu", qc_dataset_file(data),
                               g->spaces[id].name, nan, inf, first);
}

static bool bind_sites(struct qc_calibration *c, struct qc_graph *g, const struct qc_dataset *data, bool nonfinite_error, struct qc_status *st)
{
    for (qc_id id = 1; id <= g->space_count; id++) {
        const struct qc_choice *choice = &c->choices[id];
        const struct qc_space *s = &g->spaces[id];
        if (!choice->chosen) continue;
        if (!check_nonfinite(c, g, data, nonfinite_error, id, st)) return false;
        if (choice->seen.count == choice->seen.zeros &&
            !qc_calibration_warn(c, st, "tensor '%s' is zero in every sample; it gets scale 1, zero point 0", s->name))
            return false;
        struct qc_affine p = qc_affine_from_range(choice->range.lo, choice->range.hi, qc_space_levels(s), s->symmetry);
        if (!qc_graph_bind_site(g, id, 1, &p.scale, &p.zero_point, st)) return false;
    }
    return true;
}

static bool collect(struct qc_calibration *c, struct collection *k, const struct qc_dataset *data, struct qc_status *st)
{
    const struct qc_calibration_options *o = k->options;
    struct qc_plan *plan = NULL;
    bool ok = false;
    const struct qc_shape *shapes = qc_stream_shapes(k->g, data, c->arena, st);
    if (!shapes || !find_watches(k, c->arena, st)) return false;
    qc_id *values = QC_NEW_ARRAY(c->arena, qc_id, k->watch_count, st);
    for (size_t i = 0; values && i < k->watch_count; i++) values[i] = k->watches[i].value;
    struct qc_plan_options plan_options = {.observed_count = k->watch_count, .observed = values};
    if (!values || !qc_plan_new(&plan, k->g, shapes, &plan_options, st)) return false;
    c->runner_bytes = qc_plan_runner_bytes(plan);
    c->constant_bytes = qc_plan_constant_bytes(plan);
    c->statistics_bytes = o->activation->need == QC_NEED_HISTOGRAM ? k->watch_count * 2 * QC_WINDOW_BINS * sizeof(uint32_t) : 0;
    if (!qc_stream_workers(&c->workers, o->workers, o->memory_limit, c->constant_bytes + 2 * c->statistics_bytes, c->runner_bytes + c->statistics_bytes, st))
        goto out;
    if (!new_statistics(k, c->workers, c->arena, st)) goto out;
    struct qc_stream stream = {.data = data,
                               .input_count = k->g->input_count,
                               .plan_count = 1,
                               .plans = {plan},
                               .workers = c->workers,
                               .observe = observe,
                               .user = k,
                               .progress = o->progress,
                               .progress_user = o->progress_user};
    if (!qc_stream_run(&stream, st)) goto out;
    for (unsigned w = 0; w < c->workers; w++)
        for (size_t i = 0; i < k->watch_count; i++) qc_histogram_add_scan(k->histograms[k->watches[i].site], k->scans[w * k->watch_count + i]);
    ok = scan_constants(k, st);
out:
    qc_plan_free(plan);
    return ok;
}

/* Nothing may stay in float in silence. */
static bool all_bound(const struct qc_graph *g, struct qc_status *st)
{
    for (qc_id id = 1; id <= g->space_count; id++)
        if (g->spaces[id].kind == QC_SPACE_SITE && g->spaces[id].state == QC_SPACE_UNBOUND)
            return qc_fail(st, QC_BAD_INPUT, "tensor '%s' was asked for by a pattern, but is never computed; check the patterns of --rules", g->spaces[id].name);
    return true;
}

bool qc_calibrate(struct qc_calibration **out, struct qc_graph *g, const struct qc_dataset *data, const struct qc_calibration_options *options,
                  struct qc_status *st)
{
    struct collection k = {.g = g, .options = options};
    struct qc_calibration *c = calloc(1, sizeof *c);
    if (c) c->arena = qc_arena_new();
    if (!c || !c->arena) {
        qc_calibration_free(c);
        return qc_fail_memory(st, sizeof *c);
    }
    c->space_count = g->space_count;
    c->choices = QC_NEW_ARRAY(c->arena, struct qc_choice, g->space_count + 1, st);
    struct solving solving = {.c = c, .k = &k};
    struct qc_pool_options pool = {.workers = options->workers ? options->workers : 1};
    double t0 = qc_seconds(), t1 = t0;
    bool ok = c->choices && collect(c, &k, data, st);
    t1 = qc_seconds();
    ok = ok && qc_pool_run(g->space_count, solve_site, &solving, &pool, st) && bind_sites(c, g, data, options->nonfinite_error, st) &&
         qc_choose_weights(c, g, options, st) && all_bound(g, st);
    free_statistics(&k, c->workers);
    c->collect_seconds = t1 - t0;
    c->solve_seconds = qc_seconds() - t1;
    if (!ok) {
        qc_calibration_free(c);
        return false;
    }
    *out = c;
    return true;
}

void qc_calibration_free(struct qc_calibration *c)
{
    if (!c) return;
    qc_arena_free(c->arena);
    free(c->warnings);
    free(c);
}
