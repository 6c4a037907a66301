// SPDX-License-Identifier: Apache-2.0
/* Quantizes the bodies of If, Loop and Scan, each as a model of its own (quantize/make/bodies.h). */
#include "quantize/search/searches.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "datasets/arrays/memory_data.h"
#include "graph/core/body.h"
#include "quantize/make/bodies.h"
#include "quantize/make/evidence.h"

/* Runs the samples of p through p->real and keeps the inputs of the bodies of p->evidence->bodies->of: evenly spread
   runs, at most QC_BODY_SAMPLES_MAX and QC_BODY_SAMPLES_BYTES for each body (less with --memory-limit). Runs whose
   shapes do not fit those of most runs are left out: others with --propagate or --accumulator, else other ranks and
   inputs without elements. Errors: those of runs. */
/* The samples of one body. A row holds all inputs of one run, one after the other. */
struct kept {
    const struct qc_graph *body;
    uint64_t runs, others, stride; /* every stride-th run is kept, without `others`: runs that do not fit */
    int64_t votes;                 /* runs that fit, less those that do not, since the first row */
    size_t bytes, row_count, row_max;
    struct qc_shape *shapes; /* [inputs] of the first row */
    bool free;               /* rows may have other shapes */
    struct row {
        struct qc_shape *shapes; /* [inputs] */
        char *data;
        size_t bytes;
    } * rows;      /* [row_max] */
    void **arrays; /* [inputs]: the rows as one array for each input */
};

struct body_samples {
    size_t count, limit; /* limit: bytes for each */
    bool free;           /* runs of one rank may have different shapes */
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

/* Drops the rows; their runs count as others. */
static void begin_again(struct kept *k)
{
    while (k->row_count) free_row(k, &k->rows[--k->row_count]);
    free(k->rows);
    free(k->shapes);
    k->rows = NULL;
    k->shapes = NULL;
    k->others = k->runs - 1;
    k->votes = 0;
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
        if (--k->votes >= 0) goto out;
        /* The first runs of a loop may have placeholders, or lists without elements: the shapes of most runs count. */
        begin_again(k);
        if (!(ok = begin_body_samples(k, limit, free_shapes, count, in, st))) goto out;
    }
    k->votes++;
    const uint64_t number = k->runs - k->others - 1;
    while (number % k->stride == 0 && k->row_count > 1 &&
           (k->row_count == k->row_max || (k->free && k->bytes + bytes + 1 > limit))) {
        /* drop every second row, so that the rest is spread evenly again */
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
    if (number % k->stride != 0) goto out;
    ok = keep_row(k, shapes, count, in, bytes, st);
out:
    free(shapes);
    return ok;
}

static bool watch(void *user, const struct qc_graph *body, size_t count, const struct qc_view *in, struct qc_status *st)
{
    struct body_samples *s = user;
    for (size_t i = 0; i < s->count; i++)
        if (s->bodies[i].body == body) return keep(&s->bodies[i], s->limit, s->free, count, in, st);
    return true;
}

static void body_samples_free(struct body_samples *s)
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

static bool body_samples_take(struct body_samples **out, const struct qc_body_set *bodies, const struct qc_network *net,
                              struct qc_status *st)
{
    const struct qc_options *o = net->scheme.options;
    struct body_samples *s = calloc(1, sizeof *s);
    struct qc_plan *plan = NULL;
    struct qc_arena *a = qc_arena_new();
    bool ok = false;
    if (s) s->bodies = calloc(bodies->count + 1, sizeof *s->bodies);
    if (!s || !a || !s->bodies) {
        qc_fail_memory(st, bodies->count * sizeof *s->bodies);
        goto out;
    }
    s->count = bodies->count;
    s->limit = QC_BODY_SAMPLES_BYTES;
    s->free = !o->method.propagate && !o->types.accumulator; /* these need samples of one size */
    if (o->run.memory_limit && o->run.memory_limit / 8 / s->count < s->limit)
        s->limit = (size_t)o->run.memory_limit / 8 / s->count;
    for (size_t i = 0; i < s->count; i++) s->bodies[i].body = bodies->of[i].graph;
    const struct qc_body_watch watched = {.fn = watch, .user = s};
    const struct qc_plan_options how = {.watch = &watched};
    if (!qc_stream_plan(&plan, net->real, net->setup->data, &how, st)) goto out;
    /* One worker: the rows kept do not depend on the number of threads. */
    const struct qc_stream stream = {.data = net->setup->data,
                                     .input_count = net->real->input_count,
                                     .plan_count = 1,
                                     .plans = {plan},
                                     .workers = 1,
                                     .progress = qc_progress_step,
                                     .progress_user = net->setup->progress};
    ok = qc_stream_run(&stream, st);
out:
    qc_plan_free(plan);
    qc_arena_free(a);
    return QC_HAND_OVER(ok, out, s, body_samples_free);
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

/* Makes data of the samples of a body: an array for each of its inputs, by name. Call once for each body; the data
   borrow from k. */
static bool body_data(struct qc_memory_data **out, struct kept *k, const char *name, struct qc_status *st)
{
    const size_t inputs = k->body->input_count;
    struct qc_memory_data *m = NULL;
    size_t at = 0;
    if (!(k->arrays = calloc(inputs + 1, sizeof *k->arrays))) return qc_fail_memory(st, inputs * sizeof *k->arrays);
    bool same = true; /* all rows have the shapes of the first one */
    for (size_t r = 0; r < k->row_count && same; r++) fits_body(&same, k, k->rows[r].shapes, inputs);
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

/* ---- One body ---- */

/* Converts node names to names inside this body: removes the prefix "BODY/". types: entries are TYPE:NAME. Other names
   stay. */
static bool names_inside(struct qc_text_list *out, const struct qc_text_list *list, const char *body, bool types,
                         struct qc_arena *a, struct qc_status *st)
{
    const size_t n = strlen(body);
    const char **items = QC_NEW_ARRAY(a, const char *, list->count, st);
    if (!items) return false;
    for (size_t i = 0; i < list->count; i++) {
        const char *colon = types ? strchr(list->items[i], ':') : NULL, *name = colon ? colon + 1 : list->items[i];
        items[i] = list->items[i];
        if (strncmp(name, body, n) != 0 || name[n] != '/') continue;
        items[i] = qc_arena_printf(a, st, "%.*s%s", (int)(name - list->items[i]), list->items[i], name + n + 1);
        if (!items[i]) return false;
    }
    *out = (struct qc_text_list){.count = list->count, .items = items};
    return true;
}

static bool set_options(struct qc_body *b, const struct qc_options *from, const struct qc_shared_weights *shared,
                        struct qc_arena *a, struct qc_status *st)
{
    static const enum qc_option gone[] = {QC_OPTION_EVAL, QC_OPTION_STATS, QC_OPTION_SEED, QC_OPTION_SAMPLES};
    struct qc_options *o = &b->options;
    *o = *from;
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) o->given[gone[i]] = false;
    o->data.eval = o->data.stats = o->run.checkpoint = o->data.shard = o->data.preprocess = o->data.image = NULL;
    o->data.inputs = o->data.states = (struct qc_text_list){0};
    o->data.metric = o->method.encodings = NULL;
    o->data.samples = 0;
    o->method.sensitivity = o->graph.require_integer = false;
    o->demand.size = o->demand.benchmark = NULL;
    if (qc_shared_weights_in(shared, b->graph)) {
        o->method.equalize = QC_EQUALIZATION_OFF;
        o->method.scale_channels = QC_CHANNELS_OFF;
    }
    o->demand.max_drop = o->demand.min_sqnr = o->demand.max_nll = (double)NAN;
    return names_inside(&o->graph.skip, &from->graph.skip, b->name, false, a, st) &&
           names_inside(&o->types.activations, &from->types.activations, b->name, true, a, st) &&
           names_inside(&o->types.weights, &from->types.weights, b->name, true, a, st);
}

/* Makes a model of the body, with the opset of the model around it. An input of unknown rank gets the rank of its
   samples. */
static bool set_model(struct qc_body *b, const struct qc_network *net, const struct kept *samples,
                      const struct qc_shared_weights *shared, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_setup *around = net->setup;
    const struct qc_graph *body = b->graph;
    struct qc_shape *shapes = QC_NEW_ARRAY(a, struct qc_shape, body->input_count, st);
    if (!shapes) return false;
    for (size_t k = 0; k < body->input_count; k++) {
        shapes[k] = qc_value(body, body->inputs[k].value)->type.shape;
        if (shapes[k].rank >= 0) continue;
        shapes[k] = samples->shapes[k];
        for (int d = 0; d < shapes[k].rank; d++) shapes[k].dim[d] = QC_FREE;
    }
    if (!qc_body_specialise(&b->model, body, shapes, NULL, st)) return false;
    /* Let the body read weights that other bodies have stored. */
    const struct qc_partition_options *o = &net->scheme.partition;
    const bool weights_alone = o->activation.dtype == QC_NONE && !o->dynamic;
    struct qc_graph *sharing;
    if (!qc_shared_weights_put(&sharing, shared, b->model, weights_alone ? QC_SHARED_ALL : QC_SHARED_PRODUCTS, st))
        return false;
    if (sharing) {
        qc_graph_free(b->model);
        b->model = sharing;
    }
    b->model->opset = around->model.graph->opset;
    b->model->budget = around->model.graph->budget;
    b->info = around->model.info;
    b->info.warning_count = b->info.note_count = b->info.file_count = 0;
    b->at_hand = (struct qc_model_at_hand){.graph = b->model, .info = &b->info, .sha256 = ""};
    b->in = (struct qc_job_inputs){
        .model = {.file = b->name, .at_hand = &b->at_hand},
        .data = {.memory = b->memory},
        .scratch = around->in->scratch,
    };
    return true;
}

static bool make(struct qc_body *b, const struct qc_network *around, struct kept *samples, qc_network_maker *maker,
                 struct qc_shared_weights *shared, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_selection some = {.samples = QC_BODY_MEASURED};
    struct qc_scheme scheme;
    if (!qc_warnings_new(&b->listener.warnings, st) || !body_data(&b->memory, samples, b->name, st) ||
        !set_options(b, around->scheme.options, shared, a, st) || !set_model(b, around, samples, shared, a, st) ||
        !qc_setup_begin(&b->setup, &b->options, &b->in, NULL, true, st))
        return false;
    b->setup->shared_weights = shared;
    const bool ok =
        qc_setup_open(b->setup, &b->listener, st) &&
        qc_scheme_of(&scheme, b->setup, &b->options, b->listener.warnings, b->setup->arena, st) &&
        qc_evidence_new(&b->evidence, b->setup, st) &&
        maker(&b->network, b->setup, &scheme, b->evidence, &b->listener, st) &&
        (qc_dataset_samples(b->setup->data) <= QC_BODY_MEASURED || qc_dataset_select(b->setup->data, &some, st)) &&
        qc_measure(&b->measurement, b->network->real, b->network->folded, b->setup->data, b->network->scheme.settings,
                   st) &&
        qc_shared_weights_add(shared, b->graph, b->network, st);
    b->setup->shared_weights = NULL;
    return ok;
}

/* Quantizes a body. If that is not possible, it stays in float, with the reason. */
static bool quantize_body(struct qc_body *b, const struct qc_network *around, struct kept *samples,
                          qc_network_maker *maker, struct qc_shared_weights *shared, struct qc_arena *a,
                          struct qc_status *st)
{
    struct qc_status why = QC_STATUS_INIT;
    const bool ok = make(b, around, samples, maker, shared, a, &why);
    const struct qc_warnings *w = b->listener.warnings;
    for (size_t i = 0; w && i < qc_warnings_count(w); i++)
        qc_warn(around->listener->warnings, "%s: %s", b->name, qc_warnings_text(w, i));
    if (ok) {
        qc_dataset_free(b->setup->data);
        b->setup->data = NULL;
        if (samples->others)
            qc_warn(around->listener->warnings, "%s: %llu of %llu runs had other shapes than most and were left out",
                    b->name, (unsigned long long)samples->others, (unsigned long long)b->runs);
        return true;
    }
    qc_body_clear(b);
    if (why.code == QC_MACHINE || why.code == QC_INTERRUPTED) return qc_fail(st, why.code, "%s", why.message);
    return (b->reason = qc_arena_strdup(a, why.message, st)) != NULL;
}

/* ---- All bodies ---- */

static bool list_bodies(struct qc_body_set **out, const struct qc_graph *g, struct qc_status *st)
{
    char label[QC_LABEL];
    size_t most = 0;
    for (qc_id id = 1; id <= g->node_count; id++) most += qc_op_has_bodies(g->nodes[id].op) ? QC_BODIES : 0;
    if (!qc_body_set_new(out, most, st)) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        struct qc_bodies b;
        if (!qc_op_has_bodies(n->op)) continue;
        if (!qc_bodies_of(&b, n, st)) return false;
        const char *node = qc_node_label(label, g, n);
        for (unsigned k = 0; k < b.count; k++) {
            struct qc_body *to = &(*out)->of[(*out)->count++];
            to->graph = b.graph[k];
            if (!(to->name = qc_arena_printf((*out)->arena, st, "%s/%s", node, b.attr[k]))) return false;
        }
    }
    return true;
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

static bool quantize_all(struct qc_body_set *all, const struct qc_network *net, struct body_samples *samples,
                         qc_network_maker *maker, struct qc_shared_weights *shared, struct qc_status *st)
{
    for (size_t i = 0; i < all->count; i++) {
        struct qc_body *b = &all->of[i];
        b->runs = samples->bodies[i].runs;
        if (!b->runs) {
            b->reason = "never run on these samples";
            if (multiplies(b->graph))
                qc_warn(net->listener->warnings, "'%s' is never run on these samples and stays in float", b->name);
            continue;
        }
        if (!quantize_body(b, net, &samples->bodies[i], maker, shared, all->arena, st))
            return qc_where(st, "body '%s'", b->name);
    }
    for (size_t i = 0; i < all->count; i++)
        if (!all->of[i].network &&
            !qc_shared_weights_put(&all->of[i].sharing, shared, all->of[i].graph, QC_SHARED_ALL, st))
            return false;
    return true;
}

bool qc_quantize_bodies(struct qc_body_set **out, const struct qc_network *net, qc_network_maker *maker,
                        struct qc_status *st)
{
    struct qc_body_set *all = NULL;
    struct body_samples *samples = NULL;
    const char *reason = !net->setup->data      ? "its samples are computed from those of the model: give --data"
                         : net->setup->in->team ? "several processes share the work"
                                                : NULL;
    bool ok = list_bodies(&all, net->real, st);
    for (size_t i = 0; ok && reason && i < all->count; i++) all->of[i].reason = reason;
    if (ok && !reason && all->count) {
        qc_progress_phase(net->setup->progress, "scanning bodies");
        ok = body_samples_take(&samples, all, net, st);
        qc_progress_end(net->setup->progress);
        struct qc_shared_weights *own = NULL, *outer = net->setup->shared_weights;
        ok = ok && (outer || qc_shared_weights_new(&own, net->real, st)) &&
             quantize_all(all, net, samples, maker, outer ? outer : own, st);
        qc_shared_weights_free(own);
        body_samples_free(samples);
    }
    return QC_HAND_OVER(ok, out, all, qc_body_set_free);
}
