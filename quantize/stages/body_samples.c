// SPDX-License-Identifier: Apache-2.0
#include "quantize/stages/body_samples.h"

#include <stdlib.h>
#include <string.h>

#include "datasets/arrays/memory_data.h"

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

static size_t bytes_of(const struct kept *k, const struct qc_shape *shapes, size_t input)
{
    return qc_shape_elements(&shapes[input]) *
           qc_dtype_size(qc_value(k->body, k->body->inputs[input].value)->type.dtype);
}

static bool begin(struct kept *k, size_t limit, bool free, size_t count, const struct qc_view *in, struct qc_status *st)
{
    size_t bytes = 0;
    if (!(k->shapes = calloc(count + 1, sizeof *k->shapes))) return qc_fail_memory(st, count * sizeof *k->shapes);
    k->free = free;
    for (size_t i = 0; i < count; i++) {
        k->shapes[i] = qc_shape_of(in[i].rank, in[i].dim);
        bytes += bytes_of(k, k->shapes, i);
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
static bool fits(bool *same, const struct kept *k, const struct qc_shape *shapes, size_t count)
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
    for (size_t i = 0; i < count; at += bytes_of(k, shapes, i++)) {
        const struct qc_view to = qc_view_of(in[i].dtype, &shapes[i], QC_LAYOUT_ROW, at);
        if (qc_view_count(&to)) qc_view_copy(&to, &in[i]);
    }
    return true;
}

static bool keep(struct kept *k, size_t limit, bool free_shapes, size_t count, const struct qc_view *in,
                 struct qc_status *st)
{
    if (!k->shapes && !begin(k, limit, free_shapes, count, in, st)) return false;
    struct qc_shape *shapes = calloc(count + 1, sizeof *shapes);
    size_t bytes = 0;
    bool same, ok = true;
    if (!shapes) return qc_fail_memory(st, count * sizeof *shapes);
    k->runs++;
    for (size_t i = 0; i < count; i++) {
        shapes[i] = qc_shape_of(in[i].rank, in[i].dim);
        bytes += bytes_of(k, shapes, i);
    }
    if (!fits(&same, k, shapes, count)) {
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

bool qc_body_samples_take(struct qc_body_samples **out, const struct qc_pipeline *p, struct qc_status *st)
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
    if (ok)
        *out = s;
    else
        qc_body_samples_free(s);
    return ok;
}

void qc_body_samples_free(struct qc_body_samples *s)
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

uint64_t qc_body_samples_runs(const struct qc_body_samples *s, size_t i)
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
    for (size_t n = 0; n < g->k->body->input_count; at += bytes_of(g->k, row->shapes, n++))
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
    for (size_t r = 0; r < k->row_count && same; r++) fits(&same, k, k->rows[r].shapes, k->body->input_count);
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
    for (size_t n = 0; ok && same && n < inputs; at += bytes_of(k, k->shapes, n++)) {
        const size_t bytes = bytes_of(k, k->shapes, n);
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
    if (ok)
        *out = m;
    else
        qc_memory_data_free(m);
    return ok;
}
