// SPDX-License-Identifier: Apache-2.0
#include "quantize/stages/stage_bodies.h"

#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "datasets/arrays/memory_data.h"
#include "graph/core/body.h"
#include "rewrite/passes/simulate.h"

/* Runs the samples of p through p->real and keeps the inputs of the bodies of p->bodies: evenly spread runs, at most
   QC_BODY_SAMPLES_MAX and QC_BODY_SAMPLES_BYTES for each body (less with --memory-limit). With --propagate or
   --accumulator only runs with the shapes of the first run are kept. Errors: those of runs. */
enum { QC_BODY_SAMPLES_MAX = 2048, QC_BODY_SAMPLES_BYTES = 128 << 20 };

/* The samples of one body. A row holds all inputs of one run, one after the other. */
struct kept {
    const struct qc_graph *body;
    uint64_t runs, others, stride; /* every stride-th run is kept, without `others`: runs that do not fit */
    size_t bytes, row_count, row_max;
    struct qc_shape *shapes; /* [inputs] of the first run */
    bool free;               /* rows may have other shapes */
    struct row {
        struct qc_shape *shapes; /* [inputs] */
        char *data;
        size_t bytes;
    } * rows;      /* [row_max] */
    void **arrays; /* [inputs]: the rows as one array for each input */
};

struct qc_body_samples {
    size_t count, limit; /* limit: bytes for each */
    bool free;           /* runs of other shapes than the first are kept too */
    struct kept *bodies;
};

static size_t body_bytes(const struct kept *k, const struct qc_shape *shapes, size_t input)
{
    return qc_shape_elements(&shapes[input]) *
           qc_dtype_size(qc_value(k->body, k->body->inputs[input].value)->type.dtype);
}

static bool begin_body_samples(struct kept *k, size_t limit, bool free, size_t count, const struct qc_view *in,
                               struct qc_status *st)
{
    size_t bytes = 0;
    if (!(k->shapes = calloc(count + 1, sizeof *k->shapes))) return qc_fail_memory(st, count * sizeof *k->shapes);
    k->free = free;
    for (size_t i = 0; i < count; i++) {
        k->shapes[i] = qc_shape_of(in[i].rank, in[i].dim);
        bytes += body_bytes(k, k->shapes, i);
        k->free = k->free && qc_shape_elements(&k->shapes[i]) > 0; /* empty inputs cannot be samples */
    }
    k->row_max = k->free ? QC_BODY_SAMPLES_MAX : limit / (bytes + 1);
    if (k->row_max > QC_BODY_SAMPLES_MAX) k->row_max = QC_BODY_SAMPLES_MAX;
    if (k->row_max < 2) k->row_max = 2;
    k->stride = 1;
    return (k->rows = calloc(k->row_max, sizeof *k->rows)) != NULL || qc_fail_memory(st, k->row_max * sizeof *k->rows);
}

static void free_row(struct kept *k, struct row *row)
{
    k->bytes -= row->bytes;
    free(row->data);
    free(row->shapes);
    *row = (struct row){.data = NULL};
}

/* Drops every second row, so that the rest is spread evenly again. */
static void thin_out(struct kept *k)
{
    size_t left = 0;
    for (size_t i = 0; i < k->row_count; i++) {
        if (i % 2 == 0)
            k->rows[left++] = k->rows[i];
        else
            free_row(k, &k->rows[i]);
    }
    for (size_t i = left; i < k->row_count; i++) k->rows[i] = (struct row){.data = NULL};
    k->row_count = left;
    k->stride *= 2;
}

/* Returns true if a run of these shapes can be kept. *same: the shapes are those of the first run. */
static bool fits_body(bool *same, const struct kept *k, const struct qc_shape *shapes, size_t count)
{
    bool ok = true;
    *same = true;
    for (size_t i = 0; i < count; i++) {
        const struct qc_shape *declared = &qc_value(k->body, k->body->inputs[i].value)->type.shape;
        if (qc_shape_equal(&shapes[i], &k->shapes[i])) continue;
        *same = false;
        ok = ok && k->free && shapes[i].rank == k->shapes[i].rank && qc_shape_elements(&shapes[i]) > 0;
        for (int d = 0; ok && d < declared->rank && d < shapes[i].rank; d++)
            ok = declared->dim[d] == QC_FREE || declared->dim[d] == shapes[i].dim[d];
    }
    return ok;
}

static bool keep_row(struct kept *k, const struct qc_shape *shapes, size_t count, const struct qc_view *in,
                     size_t bytes, struct qc_status *st)
{
    struct row row = {.shapes = malloc((count + 1) * sizeof *shapes), .data = malloc(bytes + 1), .bytes = bytes + 1};
    if (!row.shapes || !row.data) {
        free(row.shapes);
        free(row.data);
        return qc_fail_memory(st, bytes);
    }
    memcpy(row.shapes, shapes, count * sizeof *shapes);
    k->rows[k->row_count++] = row;
    k->bytes += row.bytes;
    char *at = row.data;
    for (size_t i = 0; i < count; at += body_bytes(k, shapes, i++)) {
        const struct qc_view to = qc_view_of(in[i].dtype, &shapes[i], QC_LAYOUT_ROW, at);
        if (qc_view_count(&to)) qc_view_copy(&to, &in[i]);
    }
    return true;
}

static bool keep(struct kept *k, size_t limit, bool free_shapes, size_t count, const struct qc_view *in,
                 struct qc_status *st)
{
    if (!k->shapes && !begin_body_samples(k, limit, free_shapes, count, in, st)) return false;
    struct qc_shape *shapes = calloc(count + 1, sizeof *shapes);
    size_t bytes = 0;
    bool same, ok = true;
    if (!shapes) return qc_fail_memory(st, count * sizeof *shapes);
    k->runs++;
    for (size_t i = 0; i < count; i++) {
        shapes[i] = qc_shape_of(in[i].rank, in[i].dim);
        bytes += body_bytes(k, shapes, i);
    }
    if (!fits_body(&same, k, shapes, count)) {
        k->others++;
        goto out;
    }
    const uint64_t number = k->runs - k->others - 1;
    while (number % k->stride == 0 && k->row_count > 1 &&
           (k->row_count == k->row_max || (k->free && k->bytes + bytes + 1 > limit)))
        thin_out(k);
    if (number % k->stride != 0) goto out;
    ok = keep_row(k, shapes, count, in, bytes, st);
out:
    free(shapes);
    return ok;
}

static bool watch(void *user, const struct qc_graph *body, size_t count, const struct qc_view *in, struct qc_status *st)
{
    struct qc_body_samples *s = user;
    for (size_t i = 0; i < s->count; i++)
        if (s->bodies[i].body == body) return keep(&s->bodies[i], s->limit, s->free, count, in, st);
    return true;
}

static void body_samples_free(struct qc_body_samples *s)
{
    if (!s) return;
    for (size_t i = 0; s->bodies && i < s->count; i++) {
        struct kept *k = &s->bodies[i];
        for (size_t n = 0; k->rows && n < k->row_count; n++) free_row(k, &k->rows[n]);
        for (size_t n = 0; k->arrays && n < k->body->input_count; n++) free(k->arrays[n]);
        free(k->rows);
        free(k->arrays);
        free(k->shapes);
    }
    free(s->bodies);
    free(s);
}

static bool body_samples_take(struct qc_body_samples **out, const struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_options *o = p->options;
    struct qc_body_samples *s = calloc(1, sizeof *s);
    struct qc_plan *plan = NULL;
    struct qc_arena *a = qc_arena_new();
    bool ok = false;
    if (s) s->bodies = calloc(p->body_count + 1, sizeof *s->bodies);
    if (!s || !a || !s->bodies) {
        qc_fail_memory(st, p->body_count * sizeof *s->bodies);
        goto out;
    }
    s->count = p->body_count;
    s->limit = QC_BODY_SAMPLES_BYTES;
    s->free = !o->propagate && !o->accumulator; /* these need samples of one size */
    if (o->memory_limit && o->memory_limit / 8 / s->count < s->limit) s->limit = (size_t)o->memory_limit / 8 / s->count;
    for (size_t i = 0; i < s->count; i++) s->bodies[i].body = p->bodies[i].body;
    const struct qc_body_watch watched = {.fn = watch, .user = s};
    const struct qc_plan_options how = {.watch = &watched};
    if (!qc_stream_plan(&plan, p->real, p->from->data, &how, st)) goto out;
    /* One worker: the rows kept do not depend on the number of threads. */
    const struct qc_stream stream = {.data = p->from->data,
                                     .input_count = p->real->input_count,
                                     .plan_count = 1,
                                     .plans = {plan},
                                     .workers = 1,
                                     .progress = qc_progress_step,
                                     .progress_user = p->progress};
    ok = qc_stream_run(&stream, st);
out:
    qc_plan_free(plan);
    qc_arena_free(a);
    return QC_HAND_OVER(ok, out, s, body_samples_free);
}

/* Number of runs of body i, and of those whose shapes did not fit and were not kept. */
static uint64_t body_samples_runs(const struct qc_body_samples *s, size_t i)
{
    return s->bodies[i].runs;
}

uint64_t qc_body_samples_others(const struct qc_body_samples *s, size_t i)
{
    return s->bodies[i].others;
}

struct qc_shape qc_body_samples_shape(const struct qc_body_samples *s, size_t i, size_t k)
{
    return s->bodies[i].shapes[k];
}

/* Hands out the rows as samples of different sizes. */
struct giving {
    const struct kept *k;
    size_t next;
};

static bool give(bool *more, void *user, struct qc_sized_row *rows, struct qc_status *st)
{
    struct giving *g = user;
    (void)st;
    if (!(*more = g->next < g->k->row_count)) return true;
    const struct row *row = &g->k->rows[g->next];
    const char *at = row->data;
    for (size_t n = 0; n < g->k->body->input_count; at += body_bytes(g->k, row->shapes, n++))
        rows[n] = (struct qc_sized_row){.dims = row->shapes[n].dim, .values = at};
    g->next++;
    return true;
}

static bool add_different(struct qc_memory_data *m, const struct kept *k, struct qc_status *st)
{
    const size_t inputs = k->body->input_count;
    struct giving g = {.k = k};
    int64_t dims[QC_RANK_MAX + 1];
    struct qc_array *arrays = calloc(inputs + 1, sizeof *arrays);
    if (!arrays) return qc_fail_memory(st, inputs * sizeof *arrays);
    for (size_t d = 0; d <= QC_RANK_MAX; d++) dims[d] = QC_FREE;
    for (size_t n = 0; n < inputs; n++)
        arrays[n] = (struct qc_array){.name = k->body->inputs[n].name,
                                      .dtype = qc_value(k->body, k->body->inputs[n].value)->type.dtype,
                                      .rank = (unsigned)k->shapes[n].rank + 1,
                                      .dims = dims};
    const bool ok = qc_memory_data_draw_sized(m, arrays, inputs, give, &g, SIZE_MAX, st);
    free(arrays);
    return ok;
}

static bool all_same(const struct kept *k)
{
    bool same = true;
    for (size_t r = 0; r < k->row_count && same; r++) fits_body(&same, k, k->rows[r].shapes, k->body->input_count);
    return same;
}

bool qc_body_samples_data(struct qc_memory_data **out, struct qc_body_samples *s, size_t i, const char *name,
                          struct qc_status *st)
{
    struct kept *k = &s->bodies[i];
    const size_t inputs = k->body->input_count;
    struct qc_memory_data *m = NULL;
    size_t at = 0;
    if (!(k->arrays = calloc(inputs + 1, sizeof *k->arrays))) return qc_fail_memory(st, inputs * sizeof *k->arrays);
    const bool same = all_same(k);
    bool ok = qc_memory_data_new(&m, name, st) && (same || add_different(m, k, st));
    for (size_t n = 0; ok && same && n < inputs; at += body_bytes(k, k->shapes, n++)) {
        const size_t bytes = body_bytes(k, k->shapes, n);
        int64_t dims[QC_RANK_MAX + 1] = {(int64_t)k->row_count};
        if (!(k->arrays[n] = malloc(bytes * k->row_count + 1))) {
            ok = qc_fail_memory(st, bytes * k->row_count);
            break;
        }
        for (size_t r = 0; r < k->row_count; r++) memcpy((char *)k->arrays[n] + r * bytes, k->rows[r].data + at, bytes);
        for (int d = 0; d < k->shapes[n].rank; d++) dims[d + 1] = k->shapes[n].dim[d];
        const struct qc_array array = {.name = k->body->inputs[n].name,
                                       .dtype = qc_value(k->body, k->body->inputs[n].value)->type.dtype,
                                       .rank = (unsigned)k->shapes[n].rank + 1,
                                       .dims = dims};
        ok = qc_memory_data_add(m, &array, k->arrays[n], st);
    }
    return QC_HAND_OVER(ok, out, m, qc_memory_data_free);
}

/* --- Listing bodies --- */

static bool body_name(const char **out, const struct qc_pipeline *p, const struct qc_node *n, const char *attr,
                      struct qc_status *st)
{
    char label[QC_LABEL];
    const char *node = qc_node_label(label, p->real, n);
    return (*out = qc_arena_printf(p->arena, st, "%s/%s", node, attr)) != NULL;
}

static bool list_bodies(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->real;
    size_t most = 0;
    for (qc_id id = 1; id <= g->node_count; id++) most += qc_op_has_bodies(g->nodes[id].op) ? QC_BODIES : 0;
    p->bodies = QC_NEW_ARRAY(p->arena, struct qc_body_job, most, st);
    if (!p->bodies) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        struct qc_bodies b;
        if (!qc_op_has_bodies(n->op)) continue;
        if (!qc_bodies_of(&b, n, st)) return false;
        for (unsigned k = 0; k < b.count; k++) {
            struct qc_body_job *job = &p->bodies[p->body_count++];
            job->body = b.graph[k];
            if (!body_name(&job->name, p, n, b.attr[k], st)) return false;
        }
    }
    return true;
}

/* --- Quantizing them --- */

static const char *no_samples(const struct qc_pipeline *p)
{
    if (!p->quantize_body) return "bodies are not quantized here";
    if (!p->from->data) return "its samples are computed from those of the model: give --data";
    return p->in->team ? "several processes share the work" : NULL;
}

/* Returns true if the body has a product that could be quantized. Other bodies get no warning: exporters write branches
   for shapes that never occur. Recursion is bounded by QC_BODY_DEPTH_MAX. */
static bool multiplies(const struct qc_graph *g)
{
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (qc_node_affine(n) == QC_AFFINE_PRODUCT) return true;
        for (unsigned i = 0; i < n->attr_count; i++)
            if (n->attrs[i].kind == QC_ATTR_GRAPH && multiplies(n->attrs[i].graph)) return true;
    }
    return false;
}

static bool quantize(struct qc_pipeline *p, struct qc_body_samples *samples, struct qc_status *st)
{
    for (size_t i = 0; i < p->body_count; i++) {
        struct qc_body_job *job = &p->bodies[i];
        job->runs = body_samples_runs(samples, i);
        if (!job->runs) {
            job->reason = "never run on these samples";
            if (multiplies(job->body))
                qc_warn(p->warnings, "'%s' is never run on these samples and stays in float", job->name);
            continue;
        }
        if (!p->quantize_body(job, p, samples, i, st)) return qc_where(st, "body '%s'", job->name);
    }
    return true;
}

static bool quantize_all(struct qc_pipeline *p, struct qc_status *st)
{
    struct qc_body_samples *samples = NULL;
    const char *reason = no_samples(p);
    if (!list_bodies(p, st)) return false;
    for (size_t i = 0; reason && i < p->body_count; i++) p->bodies[i].reason = reason;
    if (reason || !p->body_count) return true;
    qc_progress_phase(p->progress, "scanning bodies");
    bool ok = body_samples_take(&samples, p, st);
    qc_progress_end(p->progress);
    ok = ok && quantize(p, samples, st);
    body_samples_free(samples);
    return ok;
}

/* --- Putting them in place --- */

static const struct qc_graph *quantized(const struct qc_pipeline *p, const struct qc_graph *body)
{
    for (size_t i = 0; i < p->body_count; i++)
        if (p->bodies[i].body == body && p->bodies[i].p) return p->bodies[i].p->produced;
    return NULL;
}

/* Returns the pipeline that made a quantized body, or NULL. */
static const struct qc_pipeline *pipeline_of(const struct qc_pipeline *p, const struct qc_graph *quantized)
{
    for (size_t i = 0; i < p->body_count; i++)
        if (p->bodies[i].p && p->bodies[i].p->produced == quantized) return p->bodies[i].p;
    return NULL;
}

static bool take_quantized(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st)
{
    const struct qc_graph *q = quantized(user, body);
    (void)st;
    if (q) *out = qc_graph_ref(q);
    return true;
}

bool qc_stage_bodies(struct qc_pipeline *p, struct qc_status *st)
{
    const struct qc_graph *g = p->rounded ? p->rounded : p->simulated;
    size_t count = 0;
    if (!p->bodies && !quantize_all(p, st)) return false;
    for (size_t i = 0; i < p->body_count; i++) count += p->bodies[i].p != NULL;
    if (!count && !p->partition->matches.count && !p->partition->weight_only_count && !p->partition->cache_count &&
        !p->may_be_float)
        return qc_fail(
            st, QC_UNSUPPORTED,
            "nothing to quantize: no pattern of 'qcalib list rules' matches, neither in the graph nor in its bodies");
    return !count || qc_bodies_replace(&p->with_bodies, g, take_quantized, p, st);
}

const struct qc_graph *qc_graph_with_bodies(const struct qc_pipeline *p)
{
    return p->with_bodies ? p->with_bodies : p->rounded ? p->rounded : p->simulated;
}

struct body_lowering {
    const struct qc_pipeline *p; /* of the graph around; NULL: it is not quantized */
    const struct qc_exporter *exporter;
    const struct qc_lower_options *options;
};

static bool lower_body(struct qc_graph **out, const void *user, const struct qc_graph *body, struct qc_status *st)
{
    const struct body_lowering *l = user;
    const struct qc_pipeline *p = l->p ? pipeline_of(l->p, body) : NULL;
    struct qc_lower_options o = *l->options;
    o.real = p ? p->from->normalised : body;
    o.own = NULL; /* bodies stay in float32 */
    return l->exporter->lower(out, body, &o, st) && qc_lower_bodies(out, p, l->exporter, &o, st);
}

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
bool qc_lower_bodies(struct qc_graph **io, const struct qc_pipeline *p, const struct qc_exporter *e,
                     const struct qc_lower_options *options, struct qc_status *st)
{
    const struct body_lowering l = {.p = p, .exporter = e, .options = options};
    struct qc_graph *lowered;
    if (!(*io)->depth) return true;
    if (!qc_bodies_replace(&lowered, *io, lower_body, &l, st)) return false;
    qc_graph_free(*io);
    *io = lowered;
    return true;
}
