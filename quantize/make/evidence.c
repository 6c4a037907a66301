// SPDX-License-Identifier: Apache-2.0
#include "quantize/make/evidence.h"

#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "calib/statistics/statistics.h"
#include "calib/weights/rounded_layers.h"
#include "datasets/arrays/memory_data.h"
#include "quantize/make/bodies.h"

static bool check(const struct qc_collection *c, const struct qc_dataset *data, const struct qc_job_inputs *in,
                  struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    char model[65];
    if (!a) return qc_fail_memory(st, 1);
    const char *inputs = data ? qc_dataset_inputs(data, a, st) : c->inputs;
    bool ok = inputs && qc_model_sha256(model, &in->model, st);
    if (ok && strcmp(model, c->model_sha256) != 0)
        ok = qc_fail(st, QC_BAD_INPUT, "is of another model (SHA-256 %s, %s has %s); collect statistics of this one",
                     c->model_sha256, in->model.file ? in->model.file : "the model", model);
    if (ok && strcmp(inputs, c->inputs) != 0) {
        const char *here = inputs, *there = c->inputs;
        qc_collection_inputs_differ(&here, &there);
        ok = qc_fail(st, QC_BAD_INPUT,
                     "was made from other inputs or with another preprocessing ('%.*s') than --data here ('%.*s')",
                     (int)strcspn(there, "\n"), there, (int)strcspn(here, "\n"), here);
    }
    return ok && qc_collection_check_whole(c, st);
}

/* Loads or copies the statistics that a job is given. Fails for statistics of another model, of another preprocessing
   than data, or without some of the chosen samples (a shard is missing). */
static bool load_statistics(struct qc_collection **out, const struct qc_dataset *data, const struct qc_job_inputs *in,
                            struct qc_status *st)
{
    const struct qc_statistics_source *from = &in->statistics;
    struct qc_collection *c = NULL;
    void *bytes = NULL;
    size_t size = 0;
    /* A copy, because a job modifies its own statistics. */
    const bool ok = from->collection ? qc_statistics_encode(&bytes, &size, from->collection, st) &&
                                           qc_statistics_decode(&c, bytes, size, st)
                                     : qc_statistics_load(&c, from->file, st);
    free(bytes);
    if (!ok) return false;
    if (check(c, data, in, st)) {
        *out = c;
        return true;
    }
    qc_collection_free(c);
    return qc_where(st, "%s", qc_statistics_name(in));
}

/* Sets e->sizes, or NULL if they are not known. */
static bool find_sizes(struct qc_evidence *e, const struct qc_setup *s, struct qc_status *st)
{
    const struct qc_graph *g = s->normalised;
    const struct qc_dataset *data = s->data ? s->data : e->statistics ? NULL : s->eval;
    struct qc_largest_sample largest = {.count = 0};
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_shape *shapes = calloc(g->input_count + 1, sizeof *shapes);
    e->sizes = shapes;
    if (!a || !shapes) return qc_fail_memory(st, g->input_count * sizeof *shapes);
    if (e->statistics) largest = e->statistics->largest;
    if (data && !qc_stream_largest(&largest, g, data, a, st)) return false;
    e->sizes_of_eval = data && data == s->eval;
    if (qc_largest_shapes(shapes, &largest, g)) return true;
    free(shapes);
    e->sizes = NULL;
    return true;
}

bool qc_evidence_sized_graph(struct qc_graph **out, const struct qc_evidence *e, const struct qc_graph *g,
                             struct qc_status *st)
{
    struct qc_status unfit = QC_STATUS_INIT;
    *out = NULL;
    if (!e->sizes || qc_fix_shapes(out, g, e->sizes, qc_evaluate, &unfit)) return true;
    *out = NULL;
    return unfit.code != QC_MACHINE || qc_fail(st, unfit.code, "%s", unfit.message);
}

bool qc_evidence_new(struct qc_evidence **out, const struct qc_setup *s, struct qc_status *st)
{
    struct qc_evidence *e = calloc(1, sizeof *e);
    const struct qc_job_inputs *in = s->in;
    if (!e) return qc_fail_memory(st, sizeof *e);
    bool ok = true;
    if (in->statistics.file && !qc_budget_file(&s->model.graph->budget, in->statistics.file, 2, st))
        ok = qc_where(st, "%s", in->statistics.file); /* factor 2: the file, and the parsed statistics */
    /* True if several networks may be made, as far as is known at the beginning: what they share is rounded once. */
    const struct qc_options *o = s->options;
    const bool several = qc_has_data(&s->in->data) && !s->in->team && !o->method.propagate && !o->demand.size;
    ok = ok && (!qc_has_statistics(in) || load_statistics(&e->statistics, s->data, in, st)) && find_sizes(e, s, st) &&
         (!several || qc_rounded_layers_new(&e->layers, s->budget, st));
    return QC_HAND_OVER(ok, out, e, qc_evidence_free);
}

static bool derive(struct qc_evidence **out, struct qc_evidence *from, bool few, struct qc_status *st)
{
    struct qc_evidence *e = *out = calloc(1, sizeof *e);
    if (!e) return qc_fail_memory(st, sizeof *e);
    *e = (struct qc_evidence){.derived = true,
                              .keys = few ? NULL : from->keys,
                              .steps = from->steps,
                              .sizes = from->sizes,
                              .sizes_of_eval = from->sizes_of_eval,
                              .bodies = from->bodies,
                              .run_bytes = from->run_bytes,
                              .memory_planned = from->memory_planned,
                              .collected = from->collected};
    if (e->bodies) e->bodies->holders++;
    memcpy(e->float_times, from->float_times, sizeof e->float_times);
    return true;
}

bool qc_evidence_beside(struct qc_evidence **out, struct qc_evidence *from, bool few, struct qc_memo_budget *budget,
                        struct qc_status *st)
{
    return derive(out, from, few, st) && (!from->layers || qc_rounded_layers_new(&(*out)->layers, budget, st));
}

bool qc_evidence_share(struct qc_evidence **out, struct qc_evidence *from, struct qc_status *st)
{
    if (!derive(out, from, false, st)) return false;
    struct qc_evidence *e = *out;
    qc_evidence_lend(e, from);
    e->layers = from->layers;
    e->borrows_layers = true;
    return true;
}

void qc_evidence_lend(struct qc_evidence *e, struct qc_evidence *from)
{
    e->statistics = qc_collection_ref(from->statistics);
    e->moments_dropped = from->moments_dropped;
    e->known = qc_known_outputs_ref(from->known);
    e->known_of = from->known_of;
}

void qc_evidence_free(struct qc_evidence *e)
{
    if (!e) return;
    if (!e->borrows_layers) qc_memo_free(e->layers);
    if (!e->derived) {
        free((void *)(uintptr_t)e->sizes);
        qc_rounded_file_close(e->layer_file);
    }
    qc_body_set_free(e->bodies);
    qc_known_outputs_free(e->known);
    qc_collection_free(e->statistics);
    free(e);
}

void qc_evidence_set_statistics(struct qc_evidence *e, struct qc_collection *statistics)
{
    qc_collection_free(e->statistics);
    e->statistics = statistics;
    e->moments_dropped = false;
    if (e->borrows_layers)
        e->layers = NULL;
    else
        qc_memo_clear(e->layers);
}

/* ---- Bodies, which have evidence of their own ---- */

bool qc_body_set_new(struct qc_body_set **out, size_t room, struct qc_status *st)
{
    struct qc_body_set *b = calloc(1, sizeof *b);
    if (!b) return qc_fail_memory(st, sizeof *b);
    b->holders = 1;
    b->arena = qc_arena_new();
    b->of = calloc(room + 1, sizeof *b->of);
    const bool ok = (b->arena && b->of) || qc_fail_memory(st, room * sizeof *b->of);
    return QC_HAND_OVER(ok, out, b, qc_body_set_free);
}

void qc_body_clear(struct qc_body *b)
{
    qc_measurement_free(b->measurement);
    qc_network_free(b->network);
    qc_evidence_free(b->evidence);
    qc_setup_free(b->setup);
    qc_warnings_free(b->listener.warnings);
    qc_memory_data_free(b->memory);
    qc_graph_free(b->model);
    qc_graph_free(b->sharing);
    b->measurement = NULL;
    b->network = NULL;
    b->evidence = NULL;
    b->setup = NULL;
    b->listener.warnings = NULL;
    b->memory = NULL;
    b->model = b->sharing = NULL;
}

void qc_body_set_free(struct qc_body_set *b)
{
    if (!b || --b->holders) return;
    for (size_t i = 0; b->of && i < b->count; i++) qc_body_clear(&b->of[i]);
    free(b->of);
    qc_arena_free(b->arena);
    free(b);
}

struct qc_known_outputs *qc_evidence_outputs(const struct qc_evidence *e, const struct qc_graph *g)
{
    return e->known_of == g ? e->known : NULL;
}
