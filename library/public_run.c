// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <pthread.h>
#include <stdlib.h>

#include "base/scope.h"
#include "calib/metrics/accuracy.h"
#include "evaluate/evaluate.h"
#include "library/public.h"
#include "quantize/options/option_value.h"
#include "quantize/search/own_metric.h"
#include "quantize/setup/model.h"

static bool data_there(const struct qcalib_job *call, const char *function, const char *what, struct qc_status *st)
{
    return call->data || qc_fail(st, QC_USAGE, "%s needs the member `data` of struct qcalib_job: %s", function, what);
}

static struct qc_progress *listener(struct qc_public_job *p)
{
    return p->call.progress ? &p->progress : NULL;
}

/* ---- Run ---- */

struct running {
    const struct qc_graph *graph;
    qcalib_output_fn *output;
    void *user;
    pthread_mutex_t lock; /* the callback runs for one unit at a time */
};

static bool give(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                 struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct running *r = user;
    const size_t count = r->graph->output_count;
    struct qcalib_output *all = calloc(count ? count : 1, sizeof *all);
    if (!all) return qc_fail_memory(st, count * sizeof *all);
    for (size_t k = 0; k < count; k++) {
        const struct qc_view v = qc_runner_output(runners[0], k);
        all[k] = (struct qcalib_output){.name = r->graph->outputs[k].name,
                                        .type = qc_dtype_info(v.dtype)->onnx,
                                        .rank = v.rank,
                                        .values = v.data};
        for (int i = 0; i < v.rank; i++) all[k].shape[i] = v.dim[i];
    }
    pthread_mutex_lock(&r->lock);
    const int said = r->output(r->user, at->sample, all, count);
    pthread_mutex_unlock(&r->lock);
    free(all);
    return said == 0 || qc_fail(st, QC_INTERRUPTED, "interrupted by the output function");
}

int qcalib_run(const qcalib_model *model, const struct qcalib_job *job, qcalib_output_fn *output, void *user,
               struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qc_public_job p = {0};
    struct qc_warnings *w = NULL;
    struct running to = {.output = output, .user = user};
    pthread_mutex_init(&to.lock, NULL);
    struct qc_settings settings;
    struct qc_model_run r = {.workers = 0};
    const bool ok = (output || qc_fail(&call.st, QC_USAGE, "output is NULL")) &&
                    qc_public_begin(&p, QC_COMMAND_run, model, job, &call.st) &&
                    data_there(&p.call, "qcalib_run", "samples to run", &call.st) &&
                    qc_settings_of(&settings, &p.options, listener(&p), &call.st) && qc_warnings_new(&w, &call.st) &&
                    qc_model_run_open(&r, &p.in.model, &p.in.data, QC_USE_INPUTS, &p.options, w, &call.st) &&
                    (to.graph = r.model.graph) && qc_model_run_plan(&r, &settings, p.arena, &call.st) &&
                    qc_model_run_units(&r, give, &to, settings.plan.accumulator.bits, listener(&p), w, &call.st);
    qc_model_run_close(&r);
    qc_public_warn(&p, w);
    qc_warnings_free(w);
    qc_public_done(&p);
    pthread_mutex_destroy(&to.lock);
    return qc_public_end(ok, &call, error);
}

/* ---- Evaluate ---- */

static bool evaluate_public_run(struct qc_metric *m, struct qc_public_job *p, const struct qcalib_model *model,
                                const struct qcalib_job *call, struct qc_warnings **w, struct qc_status *st)
{
    struct qc_settings settings;
    struct qc_model_run r = {.workers = 0};
    struct qc_overflows overflows = {0};
    if (!qc_public_begin(p, QC_COMMAND_eval, model, call, st)) return false;
    if (p->options.data.metric && !qc_own_metric_reads_outputs(&p->options))
        return qc_warnings_new(w, st) && qc_own_metric_of_model(m, &p->in.model, &p->options, listener(p), st);
    if (!data_there(&p->call, "qcalib_evaluate", "samples with labels or target", st) ||
        !qc_settings_of(&settings, &p->options, listener(p), st) || !qc_warnings_new(w, st) ||
        !qc_model_run_open(&r, &p->in.model, &p->in.data, QC_USE_TRUTH, &p->options, *w, st))
        return false;
    qc_progress_phase(listener(p), "evaluating");
    const struct qc_evaluation e = {.graph = r.model.graph,
                                    .data = r.data,
                                    .how = &settings.plan,
                                    .settings = &settings};
    const bool own = p->options.data.metric != NULL;
    const bool ok = own ? qc_own_metric_of_outputs(m, r.model.graph, r.data, &settings.plan, &p->options, &settings,
                                                   listener(p), st)
                        : qc_evaluate_sums(m, &overflows, &e, p->arena, st);
    qc_progress_end(listener(p));
    if (ok && !own) {
        const struct qc_metric *const one[] = {m};
        const bool narrow = settings.plan.accumulator.bits && settings.plan.accumulator.bits < 32;
        qc_warn_overflows(*w, &overflows, settings.plan.accumulator.bits, NULL);
        if (!narrow) qc_warn_chance_level(*w, one, 1, qc_dataset_file(r.data)); /* otherwise overflows explain it */
    }
    qc_model_run_close(&r);
    return ok || qc_where(st, "%s", model->name);
}

int qcalib_evaluate(struct qcalib_metric *out, const qcalib_model *model, const struct qcalib_job *job,
                    struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qc_public_job p = {0};
    struct qc_warnings *w = NULL;
    struct qc_metric m;
    struct qcalib_metric own = {0};
    bool ok = qc_public_there(out, "out", &call.st) && evaluate_public_run(&m, &p, model, job, &w, &call.st);
    if (ok) {
        own = (struct qcalib_metric){.name = m.name,
                                     .value = m.value,
                                     .low = m.low,
                                     .high = m.high,
                                     .top5 = m.top5,
                                     .mse = m.mse,
                                     .samples = m.samples,
                                     .seconds = m.seconds};
        ok = qc_public_give(out, &own, sizeof own, "qcalib_metric", &call.st);
    }
    qc_public_warn(&p, w);
    qc_warnings_free(w);
    qc_public_done(&p);
    return qc_public_end(ok, &call, error);
}

/* ---- Compare ---- */

struct qcalib_comparison {
    struct qc_public_job public; /* its arena holds the pairs of layers */
    struct qc_compared_models models;
};

int qcalib_compare(qcalib_comparison **out, const qcalib_model *reference, const qcalib_model *model,
                   const struct qcalib_job *job, struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    struct qc_warnings *w = NULL;
    struct qcalib_comparison *c = NULL;
    bool ok = qc_public_there(out, "out", &call.st);
    if (ok && !(c = calloc(1, sizeof *c))) ok = qc_fail_memory(&call.st, sizeof *c);
    struct qc_public_job *p = c ? &c->public : NULL;
    ok = ok && qc_public_there(reference, "reference", &call.st) &&
         qc_public_begin(p, QC_COMMAND_compare, model, job, &call.st) &&
         data_there(&p->call, "qcalib_compare", "samples to run", &call.st) && qc_warnings_new(&w, &call.st);
    if (ok) {
        struct qc_compared_models *m = &c->models;
        struct qc_model_at_hand first;
        struct qc_model_source sources[2] = {[1] = p->in.model};
        qc_public_source(&sources[0], &first, reference);
        ok = qc_compare_models(m, sources, &p->in.data, &p->options, listener(p), w, &call.st);
        const bool two = m->how[0].accumulator.bits && m->how[0].accumulator.bits < 32;
        for (int k = 0; ok && k < 2; k++)
            qc_warn_overflows(w, &m->result->overflows[k], m->how[k].accumulator.bits,
                              two ? (k ? m->second.path : m->first.path) : NULL);
    }
    if (c) qc_public_warn(&c->public, w);
    qc_warnings_free(w);
    return qc_public_end(QC_HAND_OVER(ok, out, c, qcalib_comparison_free), &call, error);
}

void qcalib_comparison_free(qcalib_comparison *comparison)
{
    if (!comparison) return;
    qc_compared_models_close(&comparison->models);
    qc_public_done(&comparison->public);
    free(comparison);
}

static bool tell_difference(struct qcalib_difference *out, const char *name, const struct qc_error *e,
                            struct qc_status *st)
{
    const struct qcalib_difference own = {.name = name,
                                          .sqnr_db = qc_error_sqnr_db(e),
                                          .cosine = e->count ? qc_error_cosine(e) : (double)NAN,
                                          .max_abs = e->count ? e->max_abs : (double)NAN};
    return qc_public_give(out, &own, sizeof own, "qcalib_difference", st);
}

size_t qcalib_comparison_output_count(const qcalib_comparison *comparison)
{
    return comparison ? comparison->models.second.graph->output_count : 0;
}

int qcalib_comparison_output(struct qcalib_difference *out, const qcalib_comparison *comparison, size_t i,
                             struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    const bool ok = qc_public_index(i, qcalib_comparison_output_count(comparison), "output", &call.st) &&
                    tell_difference(out, comparison->models.second.graph->outputs[i].name,
                                    &comparison->models.result->outputs[i], &call.st);
    return qc_public_end(ok, &call, error);
}

size_t qcalib_comparison_layer_count(const qcalib_comparison *comparison)
{
    return comparison ? comparison->models.pairs.count : 0;
}

int qcalib_comparison_layer(struct qcalib_difference *out, const qcalib_comparison *comparison, size_t i,
                            struct qcalib_error *error)
{
    struct qc_public_call call = qc_public_begin_call();
    const bool ok =
        qc_public_index(i, qcalib_comparison_layer_count(comparison), "layer", &call.st) &&
        tell_difference(out, comparison->models.pairs.layers[i].name, &comparison->models.result->pairs[i], &call.st);
    return qc_public_end(ok, &call, error);
}
