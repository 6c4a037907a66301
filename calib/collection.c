// SPDX-License-Identifier: Apache-2.0
#include "calib/collection.h"

#include <stdlib.h>
#include <string.h>

struct collecting {
    struct qc_collection *c;
    unsigned workers;
    struct qc_scan **scans; /* [workers][count] */
    float **rows;           /* [workers]: a copy of a value that is not dense */
    size_t *row_sizes;
};

static const float *dense_copy(struct collecting *k, unsigned worker, const struct qc_view *v, size_t n, struct qc_status *st)
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
    struct collecting *k = user;
    size_t n = qc_view_count(v);
    const float *x = dense_copy(k, at->worker, v, n, st);
    return x && qc_scan_sample(k->scans[at->worker * k->c->count + index], x, n, at->sample, st);
}

static bool begin(struct collecting *k, unsigned workers, struct qc_status *st)
{
    struct qc_arena *a = k->c->arena;
    k->workers = workers;
    k->scans = QC_NEW_ARRAY(a, struct qc_scan *, (size_t)workers * k->c->count, st);
    k->rows = QC_NEW_ARRAY(a, float *, workers, st);
    k->row_sizes = QC_NEW_ARRAY(a, size_t, workers, st);
    if (!k->scans || !k->rows || !k->row_sizes) return false;
    for (size_t i = 0; i < workers * k->c->count; i++)
        if (!qc_scan_new(&k->scans[i], k->c->need, st)) return false;
    return true;
}

static void end(struct collecting *k)
{
    for (size_t i = 0; k->scans && i < k->workers * k->c->count; i++) qc_scan_free(k->scans[i]);
    for (unsigned w = 0; k->rows && w < k->workers; w++) free(k->rows[w]);
}

static struct qc_collection *new_collection(size_t count, const char *const *names, const struct qc_collect_options *o, struct qc_status *st)
{
    struct qc_collection *c = calloc(1, sizeof *c);
    if (!c || !(c->arena = qc_arena_new())) {
        free(c);
        qc_fail_memory(st, sizeof *c);
        return NULL;
    }
    c->need = o->need;
    qc_text(c->model_sha256, sizeof c->model_sha256, "%s", o->model_sha256 ? o->model_sha256 : "");
    c->inputs = qc_arena_strdup(c->arena, o->inputs ? o->inputs : "", st);
    c->values = QC_NEW_ARRAY(c->arena, struct qc_collected, count, st);
    bool ok = c->inputs && c->values;
    for (size_t i = 0; ok && i < count; i++) {
        struct qc_collected *v = &c->values[c->count++];
        ok = (v->name = qc_arena_strdup(c->arena, names[i], st)) && qc_histogram_new(&v->histogram, o->need, st);
    }
    if (ok) return c;
    qc_collection_free(c);
    return NULL;
}

void qc_collection_free(struct qc_collection *c)
{
    if (!c) return;
    for (size_t i = 0; c->values && i < c->count; i++) qc_histogram_free(c->values[i].histogram);
    qc_arena_free(c->arena);
    free(c->parts);
    free(c->ranges);
    free(c);
}

bool qc_collect(struct qc_collection **out, struct qc_collect_cost *cost, const struct qc_graph *g, size_t count, const qc_id *values,
                const char *const *names, const struct qc_dataset *data, const struct qc_collect_options *o, struct qc_status *st)
{
    struct qc_plan *plan = NULL;
    struct qc_collection *c = new_collection(count, names, o, st);
    struct collecting k = {.c = c};
    struct qc_collect_cost used = {.statistics_bytes = o->need == QC_NEED_HISTOGRAM ? count * 2 * QC_WINDOW_BINS * sizeof(uint32_t) : 0};
    struct qc_plan_options plan_options = {.observed_count = count, .observed = values};
    bool ok = false;
    if (!c) return false;
    const struct qc_shape *shapes = qc_stream_shapes(g, data, c->arena, st);
    if (!shapes || !qc_plan_new(&plan, g, shapes, &plan_options, st)) goto out;
    used.runner_bytes = qc_plan_runner_bytes(plan);
    used.constant_bytes = qc_plan_constant_bytes(plan);
    if (!qc_stream_workers(&used.workers, o->workers, o->memory_limit, used.constant_bytes + 2 * used.statistics_bytes,
                           used.runner_bytes + used.statistics_bytes, st) ||
        !begin(&k, used.workers, st))
        goto out;
    struct qc_stream stream = {.data = data,
                               .input_count = g->input_count,
                               .plan_count = 1,
                               .plans = {plan},
                               .workers = used.workers,
                               .observe = observe,
                               .user = &k,
                               .progress = o->progress,
                               .progress_user = o->progress_user};
    if (!qc_stream_run(&stream, st)) goto out;
    for (unsigned w = 0; w < used.workers; w++)
        for (size_t i = 0; i < count; i++) qc_histogram_add_scan(c->values[i].histogram, k.scans[w * count + i]);
    if (cost) *cost = used;
    *out = c;
    c = NULL;
    ok = true;
out:
    end(&k);
    qc_plan_free(plan);
    qc_collection_free(c);
    return ok;
}

const struct qc_histogram *qc_collection_find(const struct qc_collection *c, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (strcmp(c->values[i].name, name) == 0) return c->values[i].histogram;
    return NULL;
}

uint64_t qc_collection_samples(const struct qc_collection *c)
{
    uint64_t n = 0;
    for (size_t i = 0; i < c->range_count; i++) n += c->ranges[i].count;
    return n;
}
