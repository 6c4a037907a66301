// SPDX-License-Identifier: Apache-2.0
#include "quantize/body_job.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "datasets/arrays/memory_data.h"
#include "graph/core/body.h"
#include "quantize/pipeline.h"
#include "quantize/report/layer_detail.h"
#include "quantize/report/quantize_report.h"
#include "quantize/report/report_nodes.h"

/* Number of samples on which layers are compared. */
enum { MEASURED = 16 };

struct body_work {
    struct qc_pipeline p;
    struct qc_options options;
    struct qc_job_inputs in;
    struct qc_model_info info;
    struct qc_model_at_hand at_hand;
    struct qc_graph *graph;
    struct qc_memory_data *memory; /* while the pipeline runs */
    struct qc_measurement *measurement;
};

static void free_work(struct body_work *w)
{
    if (!w) return;
    qc_body_jobs_free(&w->p);
    qc_measurement_free(w->measurement);
    qc_pipeline_end(&w->p);
    qc_memory_data_free(w->memory);
    qc_graph_free(w->graph);
    free(w);
}

void qc_body_jobs_free(struct qc_pipeline *p)
{
    for (size_t i = 0; p->bodies && i < p->body_count; i++) {
        free_work(p->bodies[i].made);
        p->bodies[i].made = NULL;
        p->bodies[i].p = NULL;
    }
}

/* --- Its options --- */

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

static bool set_options(struct body_work *w, const struct qc_pipeline *around, const char *body, struct qc_status *st)
{
    static const enum qc_option gone[] = {QC_OPTION_EVAL, QC_OPTION_STATS, QC_OPTION_SEED, QC_OPTION_SAMPLES};
    const struct qc_options *from = around->options;
    struct qc_options *o = &w->options;
    struct qc_arena *a = around->arena;
    *o = *from;
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++) o->given[gone[i]] = false;
    o->eval = o->stats = o->checkpoint = o->shard = o->preprocess = o->image = NULL;
    o->inputs = (struct qc_text_list){0};
    o->samples = 0;
    o->sensitivity = o->require_integer = false;
    o->size = o->benchmark = NULL;
    o->max_drop = o->min_sqnr = o->max_nll = (double)NAN;
    return names_inside(&o->skip, &from->skip, body, false, a, st) &&
           names_inside(&o->activation_types, &from->activation_types, body, true, a, st) &&
           names_inside(&o->weight_types, &from->weight_types, body, true, a, st);
}

/* --- Its model and data --- */

static bool open_memory(struct qc_dataset **out, const void *user, const struct qc_input_spec *inputs,
                        size_t input_count, const struct qc_dataset_options *options, struct qc_status *st)
{
    return qc_dataset_open_memory(out, user, inputs, input_count, options, st);
}

static bool memory_sha256(char hex[65], const void *user, struct qc_status *st)
{
    return qc_memory_data_sha256(hex, user, st);
}

/* Makes a model of the body, with the opset of the model around it. An input of unknown rank gets the rank of its
   samples. */
static bool set_model(struct body_work *w, const struct qc_body_job *job, const struct qc_pipeline *around,
                      const struct qc_body_samples *samples, size_t i, struct qc_status *st)
{
    const struct qc_graph *body = job->body;
    struct qc_shape *shapes = QC_NEW_ARRAY(around->arena, struct qc_shape, body->input_count, st);
    if (!shapes) return false;
    for (size_t k = 0; k < body->input_count; k++) {
        shapes[k] = qc_value(body, body->inputs[k].value)->type.shape;
        if (shapes[k].rank >= 0) continue;
        shapes[k] = qc_body_samples_shape(samples, i, k);
        for (int d = 0; d < shapes[k].rank; d++) shapes[k].dim[d] = QC_FREE;
    }
    if (!qc_body_specialise(&w->graph, body, shapes, NULL, st)) return false;
    w->graph->opset = around->from->model.graph->opset;
    w->graph->budget = around->from->model.graph->budget;
    w->info = around->from->model.info;
    w->info.warning_count = w->info.note_count = w->info.file_count = 0;
    w->at_hand = (struct qc_model_at_hand){.graph = w->graph, .info = &w->info, .sha256 = ""};
    w->in = (struct qc_job_inputs){
        .model = {.file = job->name, .at_hand = &w->at_hand},
        .data = {.open = open_memory, .sha256 = memory_sha256, .user = w->memory},
        .scratch = around->in->scratch,
    };
    return true;
}

static bool measure_body_layers(struct body_work *w, struct qc_status *st)
{
    const struct qc_selection some = {.samples = MEASURED};
    const struct qc_measure_options m = {.run = {.workers = (unsigned)w->options.threads,
                                                 .memory_limit = (size_t)w->options.memory_limit},
                                         .accumulator = w->p.how.accumulator,
                                         .rounding = w->p.how.rounding};
    if (qc_dataset_samples(w->p.from->data) > MEASURED && !qc_dataset_select(w->p.from->data, &some, st)) return false;
    return qc_measure(&w->measurement, w->p.real, w->p.folded, w->p.from->data, &m, st);
}

static void pass_warnings(struct qc_pipeline *around, const struct qc_pipeline *p, const char *body)
{
    for (size_t i = 0; p->warnings && i < qc_warnings_count(p->warnings); i++)
        qc_warn(around->warnings, "%s: %s", body, qc_warnings_text(p->warnings, i));
}

static bool run(struct body_work *w, struct qc_body_job *job, struct qc_pipeline *around,
                struct qc_body_samples *samples, size_t i, struct qc_status *st)
{
    if (!qc_body_samples_data(&w->memory, samples, i, job->name, st) || !set_options(w, around, job->name, st) ||
        !set_model(w, job, around, samples, i, st))
        return false;
    w->p.quantize_body = around->quantize_body;
    w->p.of_body = true;
    return qc_pipeline_begin(&w->p, &w->options, &w->in, st) && qc_pipeline_run(&w->p, st) &&
           measure_body_layers(w, st);
}

bool qc_quantize_body(struct qc_body_job *job, struct qc_pipeline *around, struct qc_body_samples *samples, size_t i,
                      struct qc_status *st)
{
    struct body_work *w = calloc(1, sizeof *w);
    struct qc_status own = QC_STATUS_INIT;
    if (!w) return qc_fail_memory(st, sizeof *w);
    const bool ok = run(w, job, around, samples, i, &own);
    pass_warnings(around, &w->p, job->name);
    qc_dataset_free(w->p.from->data); /* frees the samples early */
    w->p.from->data = NULL;
    if (ok) {
        const uint64_t others = qc_body_samples_others(samples, i);
        if (others)
            qc_warn(around->warnings, "%s: %llu of %llu runs had other shapes than the first and were left out",
                    job->name, (unsigned long long)others, (unsigned long long)job->runs);
        job->made = w;
        job->p = &w->p;
        return true;
    }
    free_work(w);
    if (own.code == QC_MACHINE || own.code == QC_INTERRUPTED) {
        *st = own;
        return false;
    }
    return (job->reason = qc_arena_strdup(around->arena, own.message, st)) != NULL;
}

/* --- The report --- */

static const char *inside(const struct qc_pipeline *p, const struct qc_body_job *job, const char *name,
                          struct qc_status *st)
{
    return name ? qc_arena_printf(p->arena, st, "%s/%s", job->name, name) : NULL;
}

bool qc_body_jobs_layers(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st)
{
    for (size_t i = 0; i < p->body_count; i++) {
        const struct qc_body_job *job = &p->bodies[i];
        const struct body_work *w = job->made;
        struct qc_report own = {0};
        if (!w) continue;
        if (!qc_fill_layers(&own, &w->p, w->measurement, NULL, st) || !qc_body_jobs_layers(&own, &w->p, st))
            return false;
        struct qc_layer *all = QC_NEW_ARRAY(p->arena, struct qc_layer, r->layer_count + own.layer_count, st);
        if (!all) return false;
        if (r->layer_count) memcpy(all, r->layers, r->layer_count * sizeof *all);
        for (size_t k = 0; k < own.layer_count; k++) {
            struct qc_layer *l = &all[r->layer_count + k];
            *l = own.layers[k];
            l->in_body = true;
            l->name = inside(p, job, l->name, st);
            l->node = inside(p, job, l->node, st);
            l->accumulator_of = inside(p, job, l->accumulator_of, st);
            if (st->code != QC_OK) return false;
        }
        r->layers = all;
        r->layer_count += own.layer_count;
    }
    return !p->body_count || qc_layers_index(r, p->arena, st);
}

bool qc_body_jobs_ops(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st)
{
    for (size_t i = 0; i < p->body_count; i++) {
        const struct qc_body_job *job = &p->bodies[i];
        struct qc_report own = {0};
        if (!job->p) continue;
        if (!qc_float_ops(&own.float_ops, &own.float_op_count, &own.quantized_ops, job->p, st) ||
            !qc_body_jobs_ops(&own, job->p, st))
            return false;
        struct qc_float_op *all =
            QC_NEW_ARRAY(p->arena, struct qc_float_op, r->float_op_count + own.float_op_count, st);
        if (!all) return false;
        if (r->float_op_count) memcpy(all, r->float_ops, r->float_op_count * sizeof *all);
        for (size_t k = 0; k < own.float_op_count; k++) {
            struct qc_float_op *f = &all[r->float_op_count + k];
            *f = own.float_ops[k];
            if (!(f->name = inside(p, job, f->name, st))) return false;
        }
        r->float_ops = all;
        r->float_op_count += own.float_op_count;
        r->quantized_ops += own.quantized_ops;
    }
    return true;
}
