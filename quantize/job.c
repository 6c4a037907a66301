// SPDX-License-Identifier: Apache-2.0
#include "quantize/job.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/scope.h"
#include "calib/statistics/collection.h"
#include "export/report/report.h"
#include "graph/core/pair_order.h"
#include "quantize/make/make.h"
#include "quantize/options/option_value.h"
#include "quantize/report/command_text.h"
#include "quantize/report/record.h"
#include "quantize/search/attempts.h"
#include "quantize/search/candidate.h"
#include "quantize/search/cost.h"
#include "quantize/search/own_metric.h"
#include "quantize/search/searches.h"
#include "quantize/setup/model.h"
#include "rewrite/canonical/canonical.h"
#include "rewrite/passes/simulate.h"

/* Number of batches for --sensitivity; accuracy is measured on all of --eval. */
enum { MEASURED = 16 };

struct qc_job {
    struct qc_job_inputs in;
    struct qc_setup *setup;
    struct qc_listener told;   /* the listener of the caller */
    struct qc_candidate *best; /* the network to be written */
    struct qc_demand demand;   /* includes the accuracy of the float network */
    struct qc_standing has;    /* measured results of the network to be written */
    struct qc_sensitivity *sensitivity;
    struct qc_measurement *measurement;
    double calibrated_db;    /* SQNR of the worst output on samples that calibrated, if measured */
    struct qc_json *latency; /* member of the record; NULL without --benchmark */
    struct qc_report r;
    struct qc_file_list inputs; /* which the job does not write */
    struct written_file {
        const char *name;
        size_t bytes;
    } * files; /* [file_room]: the written files, for the report */
    size_t file_count, file_room;
    double started, exporting; /* exporting: seconds of qc_job_write */
};

static const char *eval_name(const struct qc_job *j)
{
    return j->in.eval.file ? j->in.eval.file : qc_dataset_file(j->setup->eval);
}

static bool measure_on(struct qc_measurement **out, struct qc_job *j, const struct qc_checked *samples,
                       struct qc_status *st)
{
    const struct qc_network *net = j->best->network;
    const bool fewer = samples->some.others || qc_dataset_samples(samples->data) > samples->some.samples;
    if (fewer && !qc_dataset_select(samples->data, &samples->some, st)) return false;
    qc_progress_phase(j->setup->progress, "comparing layers");
    const bool ok = qc_measure(out, net->real, net->folded, samples->data, net->scheme.settings, st);
    qc_progress_end(j->setup->progress);
    const struct qc_options *chosen = samples->data == j->setup->data ? j->setup->options : NULL;
    return (!fewer || qc_model_select_again(samples->data, chosen, st)) && ok;
}

static bool measure_layers(struct qc_job *j, struct qc_status *st)
{
    if (!j->setup->data) return true;
    const struct qc_checked checked = qc_checked_samples(j->setup);
    qc_json_put(j->r.record, "measured_on %s", checked.on);
    qc_dataset_let_go(j->setup->data); /* frees cached samples before the stages with the highest memory use */
    if (!measure_on(&j->measurement, j, &checked, st)) return false;
    /* Warn of NaN and infinite values in float outputs; fail if all values of all outputs are such. */
    const struct qc_graph *g = j->best->network->folded;
    const char *bad = NULL;
    uint64_t compared = 0;
    const struct qc_calibration *c = j->best->network->calibration;
    bool warned = false; /* calibration has seen NaN or infinity and warned of it: one bad sample gives one warning */
    for (qc_id s = 1; s <= c->qparams_count && !warned; s++)
        warned = c->choices[s].seen.nan || c->choices[s].seen.pos_inf || c->choices[s].seen.neg_inf;
    for (size_t k = 0; k < g->output_count; k++) {
        const struct qc_error *e = &j->measurement->comparison->outputs[k];
        compared += e->count;
        if (!e->left_out) continue;
        bad = bad ? bad : g->outputs[k].name;
        if (warned) continue;
        qc_warn(j->best->warnings,
                "output '%s': %llu of %llu values are NaN or infinite in the float model, and left out of its error",
                g->outputs[k].name, (unsigned long long)e->left_out, (unsigned long long)(e->left_out + e->count));
    }
    return !bad || compared ||
           qc_fail(st, QC_BAD_INPUT,
                   "output '%s' of the float model has only NaN or infinite values in %zu samples, so there is nothing "
                   "to compare with; check the samples (%s)",
                   bad, qc_dataset_samples(j->setup->data), qc_dataset_file(j->setup->data));
}

static bool evaluate_one(struct qc_job *j, const struct qc_graph *g, bool quantized, struct qc_status *st)
{
    const struct qc_settings *settings = j->best->scheme.settings;
    if (j->setup->options->data.metric) {
        qc_progress_phase(j->setup->progress, "metric");
        const struct qc_setup *s = j->setup;
        const bool own =
            quantized ? qc_own_metric_of_network(&j->has.metric, j->best->network, st)
            : qc_own_metric_reads_outputs(s->options)
                ? qc_own_metric_of_outputs(&j->demand.fp32, g, s->eval, NULL, s->options, settings, s->progress, st)
                : qc_own_metric_of_model(&j->demand.fp32, &j->in.model, s->options, s->progress, st);
        qc_progress_end(j->setup->progress);
        return own;
    }
    qc_progress_phase(j->setup->progress, quantized ? "accuracy int8" : "accuracy float");
    const struct qc_evaluation e = {.graph = g,
                                    .data = j->setup->eval,
                                    .how = quantized ? &settings->plan : NULL,
                                    .settings = settings};
    const bool ok =
        qc_evaluate_sums(quantized ? &j->has.metric : &j->demand.fp32, &j->has.overflows, &e, j->best->arena, st);
    qc_progress_end(j->setup->progress);
    return ok;
}

static bool evaluate(struct qc_job *j, struct qc_status *st)
{
    const struct qc_options *o = j->setup->options;
    const struct qc_graph *graphs[2] = {j->setup->normalised, j->best->network->produced};
    if (!qc_measures_accuracy(j->setup)) return true;
    for (int i = 0; i < 2; i++) {
        const bool ok = evaluate_one(j, graphs[i], i == 1, st);
        if (!ok && st->code == QC_UNSUPPORTED && graphs[i]->carried && !qc_options_demand(o)) {
            /* Drop --eval: the labelled output is computed by unsupported operators, so accuracy cannot be measured. */
            qc_warn(j->best->warnings,
                    "accuracy is not measured: %s; the report has the errors of the last computed tensors",
                    st->message);
            *st = QC_STATUS_INIT;
            qc_dataset_free(j->setup->eval);
            j->setup->eval = NULL;
            return true;
        }
        if (!ok) return false;
    }
    const struct qc_metric *const real[] = {&j->demand.fp32};
    if (!isnan(o->demand.max_nll) && isnan(j->demand.fp32.nll))
        return qc_fail(st, QC_USAGE, "--max-nll needs labels in --eval; %s has a target for every output",
                       eval_name(j));
    if (!o->data.metric) qc_warn_chance_level(j->best->warnings, real, 1, eval_name(j));
    qc_json_put(j->r.timing, "eval_seconds %g", j->demand.fp32.seconds + j->has.metric.seconds);
    return true;
}

/* Calls the listener for the passes of a network that a search has made. */
static bool tell_passes(const struct qc_job *j, struct qc_status *st)
{
    const struct qc_network *net = j->best->network;
    for (int pass = QC_PASS_functions; pass < QC_PASS_COUNT; pass++)
        if (!qc_pass_done(&j->told, (enum qc_pass)pass, qc_network_graph(net, (enum qc_pass)pass), net->partition, st))
            return false;
    return true;
}

/* Measures the effect of single layers if needed, and widens layers if a demand is not met. */
static bool improve(struct qc_job *j, struct qc_status *st)
{
    const struct qc_options *o = j->setup->options;
    const bool missed = qc_options_demand(o) && !qc_demand_met(&j->demand, &j->has);
    struct qc_report *r = &j->r;
    if (!o->method.sensitivity && !missed) return true;
    if (!qc_measure_sensitivity(&j->sensitivity, j->best->network, j->setup->eval, MEASURED, NULL, st) ||
        (o->method.sensitivity && o->data.metric &&
         !qc_own_metric_of_layers(j->sensitivity, &j->demand.fp32, j->best->network, st)))
        return false;
    qc_record_sensitivity(r, j->sensitivity);
    if (!missed) return true;
    const double t0 = qc_seconds();
    struct qc_json *path;
    /* by noise, fewer layers suffice: docs/decisions/0016-sensitivity-by-cuts.md */
    qc_sensitivity_sort(j->sensitivity, QC_EFFECTS_BY_NOISE);
    if (!qc_fall_back(&path, &j->has, &j->demand, j->sensitivity, st)) return false;
    const bool tried = qc_json_size(qc_json_get(path, "steps")) > 1;
    qc_json_set(r->record, "fallback", path);
    qc_json_put(r->timing, "fallback_seconds %g", qc_seconds() - t0);
    return !tried || tell_passes(j, st);
}

/* Fails with the list of the operators in float. */
static bool require_integer(const struct qc_json *floats, struct qc_status *st)
{
    char list[1500] = "";
    const size_t count = qc_json_size(floats);
    if (!count) return true;
    for (size_t i = 0, at = 0; i < count && at + 100 < sizeof list; i++) {
        const struct qc_json *f = qc_json_at(floats, i);
        qc_text(list + at, (unsigned)(sizeof list - at), "%s'%.60s' (%s: %s)", i ? ", " : "",
                qc_json_find_text(f, "name"), qc_json_find_text(f, "op"), qc_json_find_text(f, "reason"));
        at += strlen(list + at);
    }
    return qc_fail(st, QC_DEMAND, "--require-integer: %zu op%s stay%s in float: %s", count, count == 1 ? "" : "s",
                   count == 1 ? "s" : "", list);
}

static bool count_ops(struct qc_job *j, struct qc_status *st)
{
    struct qc_json *floats = qc_json_array();
    size_t quantized = 0;
    /* products of the produced graph whose pair sums may saturate (graph/core/pair_order.h) */
    const struct qc_graph *g = j->best->network->produced;
    struct qc_pair_proof proof;
    qc_prove_pairs(&proof, g);
    const char *first = proof.first ? QC_NODE_LABEL(g, &g->nodes[proof.first]) : NULL;
    const struct qc_target *t = j->setup->options->graph.runs_on;
    const bool x86 = qc_target_is_x86(t);
    qc_json_set(j->r.record, "processors",
                QC_JSON("onnxruntime %hhd estimated %hhd exact_without_vnni %hhd products %zu saturating %zu first %s "
                        "channels_limited %zu",
                        x86, (bool)(x86 && !t->openvino), (bool)!proof.saturating, proof.products, proof.saturating,
                        first, j->best->network->calibration->paired));
    const bool ok = qc_float_ops(floats, &quantized, j->best->network, NULL, st);
    qc_json_put(j->r.record, "quantized_ops %zu", quantized);
    qc_json_set(j->r.record, "float_ops", floats);
    return ok &&
           (!j->setup->options->graph.require_integer || require_integer(qc_json_get(j->r.record, "float_ops"), st));
}

/* Widens layers if outputs have lost too much; the report then has the figures of the changed network. */
static bool mend(struct qc_job *j, struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct qc_json *path;
    bool changed;
    if (!j->measurement) return true;
    /* Measure the worst output on samples that calibrated: what is mended depends on no others. */
    const struct qc_checked checked = qc_checked_samples(j->setup),
                            known = {.data = j->setup->data, .some = qc_measured_samples(j->setup->data)};
    struct qc_measurement *own = NULL;
    size_t worst;
    const bool other = checked.data != known.data || checked.some.others;
    if (other && !measure_on(&own, j, &known, st)) return false;
    j->calibrated_db = qc_worst_output(&worst, j->best->network, own ? own : j->measurement);
    qc_measurement_free(own);
    if (!qc_mend(&path, &changed, j->best, j->calibrated_db, st)) return false;
    if (!changed) return true;
    const bool met = qc_json_find_number(path, "met") > 0;
    if (path) qc_json_set(j->r.record, "fallback", path);
    qc_json_put(j->r.timing, "fallback_seconds %g", qc_seconds() - t0);
    qc_measurement_free(j->measurement);
    j->measurement = NULL;
    return tell_passes(j, st) && count_ops(j, st) &&
           (!met || !qc_measures_accuracy(j->setup) || evaluate_one(j, j->best->network->produced, true, st)) &&
           measure_layers(j, st);
}

bool qc_job_check_demand(bool *models, const struct qc_job *j, struct qc_status *st)
{
    bool drop;
    const bool met = qc_demand_check(&drop, &j->demand, &j->has, st);
    *models = !drop;
    return met;
}

/* Returns the overflows of narrow accumulators on --eval, else on the measured samples; NULL without either. */
static const struct qc_overflows *counted(const struct qc_job *j)
{
    const unsigned bits = j->best->scheme.settings->plan.accumulator.bits;
    if (!bits || bits == 32) return NULL;
    return j->setup->eval && !j->setup->options->data.metric ? &j->has.overflows
           : j->measurement                                  ? &j->measurement->overflows
                                                             : NULL;
}

/* Puts in files and hashes of the inputs; without samples those of the statistics stand for the data. Statistics in
   memory have no hash. */
static bool record_inputs(struct qc_job *j, struct qc_status *st)
{
    const struct qc_setup *s = j->setup;
    const struct qc_job_inputs *in = &j->in;
    const struct qc_evidence *e = j->best->evidence;
    const bool statistics = qc_has_statistics(in);
    const char *name = statistics ? qc_statistics_name(in) : NULL;
    char model_sha[65], data_sha[65] = "", stats_sha[65] = "";
    size_t total = 0, samples = s->data ? qc_dataset_samples(s->data) : 0;
    if (!qc_model_sha256(model_sha, &in->model, st) || (s->data && !qc_data_sha256(data_sha, &in->data, s->data, st)) ||
        (in->statistics.file && !qc_sha256_file(stats_sha, in->statistics.file, st)))
        return false;
    if (!s->data) {
        memcpy(data_sha, stats_sha, sizeof data_sha);
        samples = (size_t)qc_collection_samples(e->statistics);
        for (size_t i = 0; i < e->statistics->part_count; i++) total += (size_t)e->statistics->parts[i].samples;
    }
    qc_json_set(j->r.record, "model",
                QC_JSON("file %s sha256 %s bytes %zu", in->model.file, model_sha, s->model.graph->budget.model_bytes));
    struct qc_json *data =
        QC_JSON("file %s sha256 %s samples %zu samples_in_file %zu samples_dropped %zu",
                s->data ? qc_dataset_file(s->data) : name, *data_sha ? data_sha : NULL, samples,
                s->data ? qc_dataset_total(s->data) : total, s->data ? qc_dataset_dropped(s->data) : (size_t)0);
    if (s->data && qc_dataset_made(s->data)) qc_json_put(data, "inputs_made %zu", qc_dataset_made(s->data));
    qc_json_set(j->r.record, "data", data);
    if (statistics)
        qc_json_set(j->r.record, "statistics",
                    QC_JSON("file %s sha256 %s samples %zu", name, *stats_sha ? stats_sha : NULL,
                            (size_t)qc_collection_samples(e->statistics)));
    return true;
}

/* Returns the options that make the network, for the report: with those that --benchmark has found. */
static const struct qc_options *told_options(const struct qc_job *j)
{
    return j->latency ? j->best->scheme.options : j->setup->options;
}

/* Describes the finished network: what is known of it without a further run. */
static bool describe_network(struct qc_job *j, struct qc_status *st)
{
    const struct qc_network *net = j->best->network;
    struct qc_report *r = &j->r;
    struct qc_arena *a = j->best->arena;
    struct qc_graph *sized;
    const char *command;
    if (!record_inputs(j, st) || !qc_job_command(&command, j->setup->in, told_options(j), NULL, a, st) ||
        !qc_warn_samples(j->best->warnings, j->setup->data ? qc_dataset_samples(j->setup->data) : 0, &j->in, a, st) ||
        !qc_record_cost(r->record, net, st) || !qc_fill_layers(r, net, j->measurement, st) ||
        !qc_evidence_sized_graph(&sized, net->evidence, net->produced, st))
        return false;
    qc_json_put(r->record, "command %s", command);
    if (qc_measures_accuracy(j->setup))
        qc_record_accuracy(r->record, &j->demand.fp32, &j->has.metric,
                           j->setup->options->data.metric ? j->setup->options->data.metric : eval_name(j));
    /* Put in the results for --min-sqnr and --max-nll. --max-drop needs none: the record has the accuracy anyhow. */
    const struct qc_demand *d = &j->demand;
    const size_t demanded = d->trials ? qc_trials_units(d->trials) * qc_dataset_unit_samples(d->data) : 0;
    if (!isnan(d->min_sqnr) || !isnan(d->max_nll))
        qc_json_set(j->r.record, "demand",
                    QC_JSON("met %hhd min_sqnr %g sqnr_db %g output %s file %s samples %zu max_nll %g nll %g",
                            qc_demand_met(d, &j->has), d->min_sqnr, j->has.sqnr_db, j->has.output, d->file, demanded,
                            d->max_nll, isnan(d->max_nll) ? (double)NAN : j->has.metric.nll));
    const struct qc_setup *s = j->setup;
    const struct qc_overflows none = {0};
    const size_t samples = s->eval ? j->demand.fp32.samples : j->measurement ? j->measurement->samples : 0;
    const char *data = s->data                     ? qc_dataset_file(s->data)
                       : qc_has_statistics(&j->in) ? qc_statistics_name(&j->in)
                                                   : NULL;
    qc_warn_overflows(j->best->warnings, counted(j) ? counted(j) : &none,
                      j->best->scheme.settings->plan.accumulator.bits, NULL);
    qc_record_accumulator(&j->r, j->best->network, samples ? counted(j) : NULL,
                          !s->eval                  ? data
                          : s->options->data.metric ? s->options->data.metric
                                                    : eval_name(j),
                          samples);
    qc_record_scaled(r->record, net);
    qc_record_centred(r->record, net);
    qc_record_network(r, net, sized ? sized : net->produced, j->measurement);
    qc_graph_free(sized);
    return qc_record_sample_facts(r, j->setup, j->setup->eval ? j->demand.fp32.classes : 0, st);
}

/* Finds advice, and completes the record but for what is written. */
static bool advise(struct qc_job *j, struct qc_status *st)
{
    const struct qc_warnings *w = j->best->warnings;
    struct qc_ideas ideas = {.count = 0};
    /* Warn if accuracy collapses on --eval although the outputs are good on --data: their samples differ. */
    static const double points = 10, good_db = 20;
    const struct qc_metric *real = &j->demand.fp32, *now = &j->has.metric;
    const double least = j->calibrated_db;
    if (j->setup->eval && j->measurement && real->kind == QC_METRIC_TOP1 && qc_metric_drop(real, now) > points &&
        least >= good_db && !isinf(least)) {
        qc_json_set(j->r.record, "samples_differ", QC_JSON("calibrated_sqnr_db %g", least));
        qc_warn(
            j->best->warnings,
            "accuracy on %s falls from %.2f to %.2f %%, though the outputs have %.1f dB on %s: their samples differ; "
            "calibrate with samples like those of use, prepared in the same way",
            eval_name(j), 100 * real->value, 100 * now->value, least, qc_dataset_file(j->setup->data));
    }
    if (!qc_json_is_whole(j->r.record)) return qc_fail_memory(st, 1); /* advice reads it */
    if (!qc_fill_advice(&j->r, &ideas, j->best, j->measurement, j->sensitivity, st) ||
        !qc_body_layers(&j->r, j->best->network, st) ||
        !qc_warn_useless(&j->r, &ideas, j->best->network, j->measurement, st) ||
        !qc_record_results(&j->r, j->best->network, counted(j), st))
        return false;
    if (qc_warnings_lost(w)) return qc_fail_memory(st, 1); /* the record would not be whole */
    qc_json_set(j->r.record, "warnings", qc_warnings_json(w));
    return true;
}

static bool begin_job(struct qc_job *j, const struct qc_options *o, const struct qc_job_listener *listener,
                      struct qc_status *st)
{
    struct qc_warnings *warnings;
    struct qc_scheme checked;
    if (!qc_setup_begin(&j->setup, o, &j->in, listener ? listener->progress : NULL, false, st) ||
        !qc_warnings_new(&warnings, st) || !qc_candidate_new(&j->best, j->setup, warnings, st) ||
        !qc_scheme_of(&checked, j->setup, o, NULL, j->best->arena, st))
        return false;
    j->told = j->best->quiet;
    if (listener) j->told.done = listener->pass_done;
    if (listener) j->told.user = listener->user;
    /* List the inputs, and fail if an output named so far is one of them. */
    const struct qc_model_source *m = &j->in.model;
    struct qc_file_list checkpoint = {.arena = j->best->arena};
    j->inputs.arena = j->best->arena;
    return qc_file_list_add_inputs(&j->inputs, &j->in, o, st) && qc_file_list_settle(&j->inputs, st) &&
           qc_file_list_add_checkpoint(&checkpoint, o, st) && qc_file_list_apart(&checkpoint, &j->inputs, st) &&
           qc_file_list_apart(&(struct qc_file_list){.items = m->outputs, .count = m->output_count}, &j->inputs, st);
}

bool qc_job_new(struct qc_job **out, const struct qc_options *o, const struct qc_job_inputs *in,
                const struct qc_job_listener *listener, struct qc_status *st)
{
    struct qc_job *j = calloc(1, sizeof *j);
    if (!j) return qc_fail_memory(st, sizeof *j);
    j->started = qc_seconds();
    j->in = *in;
    const bool ok = qc_record_begin(&j->r, st) && begin_job(j, o, listener, st);
    return QC_HAND_OVER(ok, out, j, qc_job_free);
}

void qc_job_free(struct qc_job *j)
{
    if (!j) return;
    qc_json_free(j->r.record);
    qc_demand_end(&j->demand);
    qc_measurement_free(j->measurement);
    qc_sensitivity_free(j->sensitivity);
    qc_candidate_free(j->best);
    qc_setup_free(j->setup);
    free(j);
}

struct qc_job_inputs qc_job_inputs_of(const struct qc_options *o, const char *model_file)
{
    return (struct qc_job_inputs){.model = {.file = model_file},
                                  .data = {.file = o->data.file},
                                  .eval = {.file = o->data.eval},
                                  .statistics = {.file = o->data.stats}};
}

const struct qc_warnings *qc_job_warnings(const struct qc_job *j)
{
    return j->best->warnings;
}

const struct qc_network *qc_job_network(const struct qc_job *j)
{
    return j->best->network;
}

const struct qc_setup *qc_job_setup(const struct qc_job *j)
{
    return j->setup;
}

/* Makes the network of the options. */
static bool make_first(struct qc_job *j, struct qc_status *st)
{
    struct qc_candidate *c = j->best;
    const struct qc_options *o = j->setup->options;
    struct qc_scheme scheme, of_options;
    if (!qc_setup_open(j->setup, &j->told, st) || !qc_evidence_new(&c->evidence, j->setup, st) ||
        !qc_scheme_of(&of_options, j->setup, o, c->warnings, c->arena, st))
        return false;
    scheme = of_options;
    if (o->demand.size && !qc_size_first(&scheme, &of_options, j->setup, c->arena, st)) return false;
    if (!qc_candidate_make(c, &scheme, &j->told, st)) return false;
    qc_check_constant_outputs(&j->r, c->network);
    return true;
}

/* --benchmark: chooses the operators in float. */
static bool place(struct qc_job *j, struct qc_status *st)
{
    const struct qc_options *before = j->best->scheme.options;
    if (!before->demand.benchmark) return true;
    if (!qc_place_by_latency(&j->latency, j->best, qc_seconds() - j->started, st)) return false;
    qc_json_set(j->r.timing, "benchmark", j->latency);
    if (!qc_json_is_whole(j->r.timing)) return qc_fail_memory(st, 1);
    return j->best->scheme.options == before || tell_passes(j, st);
}

bool qc_job_run(struct qc_job *j, struct qc_status *st)
{
    const unsigned before = qc_pool_share((unsigned)j->setup->options->run.threads);
    bool changed = false, ok = qc_placement_check(j->setup, j->best->arena, st) && make_first(j, st) &&
                               qc_take_free_ideas(&j->r, &changed, j->best, st) && (!changed || tell_passes(j, st));
    if (ok && j->setup->options->demand.size) ok = qc_fit_size(&j->r, j->best, st) && tell_passes(j, st);
    ok = ok && place(j, st) && count_ops(j, st) && evaluate(j, st) && qc_demand_begin(&j->demand, j->best, st) &&
         qc_demand_measure_outputs(&j->has, &j->demand, st) && improve(j, st) &&
         (!qc_json_find(j->r.record, "fallback") || count_ops(j, st)) && measure_layers(j, st) && mend(j, st);
    if (ok && j->latency && qc_json_find(j->r.record, "fallback")) /* a demand has changed the network */
        ok = qc_placement_measure_again(j->latency, j->best, st);
    ok = ok && describe_network(j, st) && advise(j, st);
    qc_pool_share(before);
    return ok || qc_where_in_job(&j->in, st);
}

bool qc_job_write(struct qc_job *j, size_t format, const char *path, struct qc_status *st)
{
    const struct qc_network *net = j->best->network;
    const struct qc_export_source source = {.produced = qc_network_written(net), .expanded = net->expanded};
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_file_list outputs = {.arena = a};
    const double t0 = qc_seconds();
    size_t bytes, at = 0;
    assert(format < j->setup->format_count);
    if (!a) return qc_fail_memory(st, 1);
    while (at < j->file_count && !qc_same_file(j->files[at].name, path)) at++;
    const char *name = at < j->file_count ? j->files[at].name : qc_arena_strdup(j->best->arena, path, st);
    if (!name || !qc_file_list_add_model(&outputs, path, st) || !qc_file_list_apart(&outputs, &j->inputs, st))
        return false;
    /* Make room for one more written file. */
    const size_t room = j->file_count ? 2 * j->file_count : 4;
    if (j->file_count >= j->file_room) {
        struct written_file *files = QC_NEW_ARRAY(j->best->arena, struct written_file, room, st);
        if (!files) return false;
        if (j->file_count) memcpy(files, j->files, j->file_count * sizeof *files);
        j->files = files;
        j->file_room = room;
    }
    if (!qc_export_file(&bytes, path, j->setup->exporters[format], &source, net->lowered[format], st)) return false;
    j->file_count += at == j->file_count;
    j->files[at] = (struct written_file){name, bytes};
    j->exporting += qc_seconds() - t0;
    return true;
}

bool qc_job_write_report(struct qc_job *j, const struct qc_json *json, const char *folder, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_file_list outputs = {.arena = a};
    if (!a) return qc_fail_memory(st, 1);
    return qc_file_list_add_report(&outputs, folder, st) && qc_file_list_apart(&outputs, &j->inputs, st) &&
           qc_report_write(json, folder, st);
}

bool qc_job_list_inputs(struct qc_file_list *to, const struct qc_job *j, struct qc_status *st)
{
    for (size_t i = 0; i < j->inputs.count; i++)
        if (!qc_file_list_add(to, j->inputs.items[i].what, j->inputs.items[i].path, st)) return false;
    return true;
}

const struct qc_report *qc_job_report(const struct qc_job *j)
{
    return &j->r;
}

bool qc_job_record(struct qc_json **out, const struct qc_job *j, struct qc_status *st)
{
    struct qc_json *o = qc_json_copy(j->r.record), *files = qc_json_array(),
                   *timing = qc_json_copy(qc_json_get(o, "timing"));
    for (size_t i = 0; i < j->file_count; i++) {
        /* A written file; with "data" if weights are in a file beside it, of which "bytes" has both. */
        const struct written_file *file = &j->files[i];
        struct qc_json *one = QC_JSON("file %s bytes %zu", file->name, file->bytes);
        char beside[4096];
        struct stat model, data;
        const int n = snprintf(beside, sizeof beside, "%s.data", file->name);
        if (n > 0 && (size_t)n < sizeof beside && stat(file->name, &model) == 0 && stat(beside, &data) == 0 &&
            (size_t)model.st_size + (size_t)data.st_size == file->bytes)
            qc_json_put(one, "data %s data_bytes %zu", beside, (size_t)data.st_size);
        qc_json_add(files, one);
    }
    qc_json_set(o, "files", files);
    qc_json_put(timing, "total_seconds %g export_seconds %g", qc_seconds() - j->started,
                qc_json_find_number(timing, "export_seconds") + j->exporting);
    qc_json_set(o, "timing", timing);
    qc_json_set(o, "options", qc_options_json(told_options(j)));
    if (qc_json_is_whole(o)) qc_json_set(o, "verdict", qc_verdict_json(o)); /* which relies on what it reads */
    return QC_HAND_OVER(qc_json_is_whole(o) || qc_fail_memory(st, 1), out, o, qc_json_free);
}

void qc_job_done(const struct qc_job *j)
{
    qc_collecting_end(j->setup->options);
    qc_latency_forget(j->setup->options);
}

bool qc_job_collect(struct qc_collect_result *out, struct qc_job *j, struct qc_status *st)
{
    struct qc_setup *s = j->setup;
    struct qc_arena *a = j->best->arena;
    struct qc_collection *statistics = NULL;
    struct qc_settings settings;
    struct qc_collecting what = {.options = s->options, .settings = &settings};
    struct qc_collect_cost cost = {0};
    struct qc_named_values *values = &what.values;
    if (!qc_settings_of(&settings, s->options, s->progress, st)) return false;
    if (!qc_setup_open(s, &j->told, st)) return qc_where_in_job(&j->in, st);
    const struct qc_graph *g = s->normalised;
    const double t0 = qc_seconds();
    if (!qc_observable_values(&values->count, &values->ids, g, s->rules, a, st) ||
        !(values->names = QC_NEW_ARRAY(a, const char *, values->count, st)))
        return false;
    for (size_t i = 0; i < values->count; i++) values->names[i] = g->values[values->ids[i]].name;
    if (s->options->data.channel_statistics && !qc_named_channel_axes(&what.channel_axes, values, g, a, st))
        return false;
    what.graph = g;
    qc_progress_phase(s->progress, "collecting");
    const bool ok = qc_collecting_run(&statistics, &cost, s, &what, a, st) || qc_where_in_job(&j->in, st);
    qc_progress_end(s->progress);
    if (ok)
        *out = (struct qc_collect_result){.statistics = statistics,
                                          .tensors = values->count,
                                          .workers = cost.workers,
                                          .seconds = qc_seconds() - t0};
    return ok;
}
