// SPDX-License-Identifier: Apache-2.0
#include "evaluate/evaluate.h"

#include "base/clock.h"
#include "base/scope.h"
#include "graph/core/verify.h"
#include "quantize/options/option_value.h"
#include "rewrite/passes/functions.h"

bool qc_canonical_model_of(struct qc_canonical_model *out, const struct qc_graph *imported, struct qc_status *st)
{
    struct qc_rules *rules = qc_rules_new(st), *fold = rules ? qc_rules_new(st) : NULL;
    struct qc_canonical_model m = {.produced = NULL};
    struct qc_graph *normalised = NULL, *joined = NULL;
    bool ok = fold && qc_rules_add_builtin(rules, "normalise.rules", st) &&
              qc_rules_add_builtin(rules, "patterns.rules", st) && qc_rules_add_builtin(rules, "allow.rules", st) &&
              qc_rules_add_builtin(fold, "requantize.rules", st);
    ok = ok && qc_normalise(&normalised, imported, rules, qc_evaluate, st) &&
         qc_join_functions(&joined, normalised, rules, NULL, st) &&
         qc_canonical(&m.canonical, &m.notes, joined, rules, st) && qc_graph_verify(m.canonical, st) &&
         qc_canonical_finish(&m.produced, m.canonical, rules, fold, qc_evaluate, st) && qc_graph_verify(m.produced, st);
    qc_graph_free(normalised);
    qc_graph_free(joined);
    qc_rules_free(rules);
    qc_rules_free(fold);
    return QC_HAND_OVER_VALUE(ok, out, m, qc_canonical_model_free);
}

void qc_canonical_model_free(struct qc_canonical_model *m)
{
    qc_graph_free(m->produced);
    qc_graph_free(m->canonical);
    *m = (struct qc_canonical_model){.produced = NULL};
}

bool qc_model_canonicalise(struct qc_model *m, struct qc_status *st)
{
    struct qc_canonical_model c;
    if (!qc_is_quantized(m->graph)) return true;
    if (!qc_canonical_model_of(&c, m->graph, st)) return qc_where(st, "%s", m->path);
    if (m->imported)
        qc_graph_free(m->graph); /* the graph of qc_model_widen */
    else
        m->imported = m->graph; /* kept, since it holds the texts of info */
    m->graph = c.produced;
    c.produced = NULL;
    qc_canonical_model_free(&c);
    return true;
}

bool qc_model_run_open(struct qc_model_run *out, const struct qc_model_source *model, const struct qc_data_source *data,
                       enum qc_data_use use, const struct qc_options *o, struct qc_warnings *w, struct qc_status *st)
{
    const struct qc_data_request request = {.use = use, .choose = QC_CHOOSE_SAMPLES};
    struct qc_model_run r = {.workers = 0};
    struct qc_model_source run = *model;
    run.only_run = true;
    const bool ok = qc_model_open(&r.model, &run, o, w, st) && qc_model_check_whole(&r.model, st) &&
                    (use == QC_USE_INPUTS || qc_model_widen(&r.model, QC_WIDEN_PORTS, st)) &&
                    qc_model_canonicalise(&r.model, st) &&
                    qc_model_data(&r.data, r.model.graph, data, &request, o, w, st);
    return QC_HAND_OVER_VALUE(ok, out, r, qc_model_run_close);
}

void qc_model_run_close(struct qc_model_run *r)
{
    qc_plan_free(r->plan);
    qc_dataset_free(r->data);
    qc_model_close(&r->model);
}

bool qc_model_run_plan(struct qc_model_run *r, const struct qc_settings *settings, struct qc_arena *a,
                       struct qc_status *st)
{
    const struct qc_graph *g = r->model.graph;
    if (!qc_stream_plan(&r->plan, g, r->data, &settings->plan, st)) return qc_where(st, "%s", r->model.path);
    const size_t units = qc_dataset_units(r->data);
    struct qc_settings run = *settings;
    if (units < run.workers) run.workers = (unsigned)units;
    return qc_stream_fit(&r->workers, &run, r->data, qc_plan_runner_bytes(r->plan), st) &&
           qc_overflows_new(&r->overflows, r->plan, g, a, st);
}

bool qc_model_run_units(struct qc_model_run *r, qc_stream_unit_fn *unit, void *user, unsigned bits,
                        struct qc_progress *progress, struct qc_warnings *w, struct qc_status *st)
{
    const struct qc_stream s = {.data = r->data,
                                .input_count = r->model.graph->input_count,
                                .plan_count = 1,
                                .plans = {r->plan},
                                .overflows = {&r->overflows},
                                .workers = r->workers,
                                .fed = 1,
                                .in_order = true, /* an output file has to wait for them */
                                .unit = unit,
                                .user = user,
                                .progress = qc_progress_step,
                                .progress_user = progress};
    qc_progress_phase(progress, "running");
    const double start = qc_seconds();
    const bool ok = qc_stream_run(&s, st);
    r->seconds = qc_seconds() - start;
    qc_progress_end(progress);
    qc_warn_overflows(w, &r->overflows, bits, NULL);
    return ok && qc_progress_check(progress, st);
}
