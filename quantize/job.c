// SPDX-License-Identifier: Apache-2.0
#include "quantize/job.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/scope.h"
#include "calib/statistics/collect_channels.h"
#include "graph/core/multiply_adds.h"
#include "graph/core/pair_order.h"
#include "graph/core/qlinear.h"
#include "quantize/advice/advice.h"
#include "quantize/body_job.h"
#include "quantize/collect/collecting.h"
#include "quantize/demand/demand.h"
#include "quantize/demand/fallback.h"
#include "quantize/demand/fit_size.h"
#include "quantize/opening/sample_warnings.h"
#include "quantize/options/option_value.h"
#include "quantize/pipeline.h"
#include "quantize/placement/latency.h"
#include "quantize/placement/placement.h"
#include "quantize/report/command_text.h"
#include "quantize/report/quantize_report.h"
#include "quantize/report/report_nodes.h"
#include "quantize/scaling/centre_channels.h"
#include "quantize/scaling/scale_channels.h"
#include "quantize/trials/auto_method.h"
#include "quantize/trials/output_bias.h"
#include "rewrite/passes/simulate.h"

/* Number of batches for --sensitivity; accuracy is measured on all of --eval. */
enum { MEASURED = 16 };

struct qc_job {
    struct qc_job_inputs in;
    struct qc_pipeline p;
    struct qc_demand demand; /* includes the accuracy of the float network */
    struct qc_standing has;  /* measured results of the network to be written */
    struct qc_sensitivity *sensitivity;
    struct qc_measurement *measurement;
    struct qc_report_latency *latency; /* NULL without --benchmark */
    struct qc_report r;
    const char **files; /* [formats]: names of the written files, for the report */
    size_t *file_bytes;
    char model_sha[65], data_sha[65], stats_sha[65];
    double started;
};

static const char *eval_name(const struct qc_job *j)
{
    return j->in.eval.file ? j->in.eval.file : qc_dataset_file(j->p.from->eval);
}

/* True if calibration has seen NaN or infinity and warned of it: one bad sample gives one warning. */
static bool warned_of_nonfinite(const struct qc_pipeline *p)
{
    for (qc_id s = 1; s <= p->calibration->qparams_count; s++) {
        const struct qc_tally *t = &p->calibration->choices[s].seen;
        if (t->nan || t->pos_inf || t->neg_inf) return true;
    }
    return false;
}

/* Warns of NaN and infinite values in float outputs; fails if all values of all outputs are such. */
static bool check_finite_outputs(const struct qc_job *j, struct qc_status *st)
{
    const struct qc_graph *g = j->p.folded;
    const char *bad = NULL;
    uint64_t compared = 0;
    const bool warned = warned_of_nonfinite(&j->p);
    for (size_t k = 0; k < g->output_count; k++) {
        const struct qc_error *e = &j->measurement->outputs[k];
        compared += e->count;
        if (!e->left_out) continue;
        bad = bad ? bad : g->outputs[k].name;
        if (warned) continue;
        qc_warn(j->p.warnings,
                "output '%s': %llu of %llu values are NaN or infinite in the float model, and left out of its error",
                g->outputs[k].name, (unsigned long long)e->left_out, (unsigned long long)(e->left_out + e->count));
    }
    return !bad || compared ||
           qc_fail(st, QC_BAD_INPUT,
                   "output '%s' of the float model has only NaN or infinite values in %zu samples, so there is nothing "
                   "to compare with; check the samples (%s)",
                   bad, qc_dataset_samples(j->p.from->data), qc_dataset_file(j->p.from->data));
}

static bool measure_layers(struct qc_job *j, struct qc_status *st)
{
    if (!j->p.from->data) return true;
    const struct qc_selection some = qc_measured_samples(j->p.from->data);
    const struct qc_measure_options m = qc_measure_options_of(&j->p);
    j->r.data_samples = qc_dataset_samples(j->p.from->data);
    qc_dataset_let_go(j->p.from->data); /* frees cached samples before the stages with the highest memory use */
    if (j->r.data_samples > some.samples && !qc_dataset_select(j->p.from->data, &some, st)) return false;
    qc_progress_phase(j->p.progress, "comparing layers");
    bool ok = qc_measure(&j->measurement, j->p.real, j->p.folded, j->p.from->data, &m, st);
    qc_progress_end(j->p.progress);
    return ok && check_finite_outputs(j, st);
}

/* Drops --eval: the labelled output is computed by unsupported operators, so accuracy cannot be measured. */
static void drop_eval(struct qc_job *j, struct qc_status *st)
{
    qc_warn(j->p.warnings, "accuracy is not measured: %s; the report has the errors of the last computed tensors",
            st->message);
    *st = QC_STATUS_INIT;
    qc_dataset_free(j->p.from->eval);
    j->p.from->eval = NULL;
}

static bool evaluate_one(struct qc_job *j, const struct qc_graph *g, bool quantized, struct qc_status *st)
{
    const struct qc_options *o = j->p.options;
    qc_progress_phase(j->p.progress, quantized ? "accuracy int8" : "accuracy float");
    const struct qc_evaluation e = {.graph = g,
                                    .data = j->p.from->eval,
                                    .how = quantized ? &j->p.how : NULL,
                                    .run = qc_run_options_of(o, j->p.progress)};
    const bool ok =
        qc_evaluate_sums(quantized ? &j->has.metric : &j->demand.fp32, &j->has.overflows, &e, j->p.arena, st);
    qc_progress_end(j->p.progress);
    return ok;
}

/* Measures the accuracy of a changed network. */
static bool evaluate_quantized(struct qc_job *j, struct qc_status *st)
{
    return !j->p.from->eval || evaluate_one(j, j->p.produced, true, st);
}

static bool evaluate(struct qc_job *j, struct qc_status *st)
{
    const struct qc_options *o = j->p.options;
    const struct qc_graph *graphs[2] = {j->p.from->normalised, j->p.produced};
    if (!j->p.from->eval) return true;
    for (int i = 0; i < 2; i++) {
        const bool ok = evaluate_one(j, graphs[i], i == 1, st);
        if (!ok && st->code == QC_UNSUPPORTED && graphs[i]->carried && !qc_options_demand(o)) {
            drop_eval(j, st);
            return true;
        }
        if (!ok) return false;
    }
    const struct qc_metric *const real[] = {&j->demand.fp32};
    if (!isnan(o->max_nll) && isnan(j->demand.fp32.nll))
        return qc_fail(st, QC_USAGE, "--max-nll needs labels in --eval; %s has a target for every output",
                       eval_name(j));
    qc_warn_chance_level(j->p.warnings, real, 1, eval_name(j));
    j->r.eval_seconds = j->demand.fp32.seconds + j->has.metric.seconds;
    return true;
}

/* Reads the demands and measures the SQNR of the outputs. */
static bool begin_demand(struct qc_job *j, struct qc_status *st)
{
    return qc_demand_begin(&j->demand, &j->p, st) && qc_demand_measure_outputs(&j->has, &j->demand, st);
}

/* Measures the effect of single layers if needed, and widens layers if a demand is not met. */
static bool improve(struct qc_job *j, struct qc_status *st)
{
    const struct qc_options *o = j->p.options;
    const bool missed = qc_options_demand(o) && !qc_demand_met(&j->demand, &j->has);
    struct qc_report *r = &j->r;
    if (!o->sensitivity && !missed) return true;
    if (!qc_measure_sensitivity(&j->sensitivity, &j->p, j->p.from->eval, MEASURED, NULL, 0, st) ||
        !qc_fill_effects(r, j->sensitivity, j->p.arena, st))
        return false;
    if (!missed) return true;
    const double t0 = qc_seconds();
    struct qc_report_fallback *path;
    /* by noise, fewer layers suffice: docs/decisions/0016-sensitivity-by-cuts.md */
    qc_sensitivity_sort(j->sensitivity, QC_EFFECTS_BY_NOISE);
    if (!qc_fall_back(&path, &j->has, &j->demand, j->sensitivity, st)) return false;
    r->fallback = path;
    r->fallback_seconds = qc_seconds() - t0;
    return path->step_count < 2 || qc_pipeline_tell_again(&j->p, st);
}

static void fill_accuracy(struct qc_job *j)
{
    struct qc_report *r = &j->r;
    const struct qc_metric m[2] = {j->demand.fp32, j->has.metric};
    r->int8_share = qc_int8_share(j->p.produced);
    r->integer_share = qc_integer_share(j->p.produced);
    r->small_float_share = qc_small_float_share(j->p.produced);
    r->block_share = qc_block_share(j->p.produced);
    if (!j->p.from->eval) return;
    r->metric = m[0].name;
    r->eval_file = eval_name(j);
    r->eval_samples = m[0].samples;
    r->fp32 = m[0].value;
    r->int8 = m[1].value;
    r->fp32_low = m[0].low;
    r->fp32_high = m[0].high;
    r->int8_low = m[1].low;
    r->int8_high = m[1].high;
    r->fp32_top5 = m[0].top5;
    r->int8_top5 = m[1].top5;
    r->eval_positions = m[0].positions;
    r->fp32_nll = m[0].nll;
    r->int8_nll = m[1].nll;
}

static bool check_integer(const struct qc_job *j, struct qc_status *st)
{
    char list[1500] = "";
    size_t at = 0;
    if (!j->p.options->require_integer || !j->r.float_op_count) return true;
    for (size_t i = 0; i < j->r.float_op_count && at + 100 < sizeof list; i++) {
        const struct qc_float_op *f = &j->r.float_ops[i];
        qc_text(list + at, (unsigned)(sizeof list - at), "%s'%.60s' (%s: %s)", i ? ", " : "", f->name, f->op,
                f->reason);
        at += strlen(list + at);
    }
    return qc_fail(st, QC_DEMAND, "--require-integer: %zu op%s stay%s in float: %s", j->r.float_op_count,
                   j->r.float_op_count == 1 ? "" : "s", j->r.float_op_count == 1 ? "s" : "", list);
}

/* Counts the products of the produced graph whose pair sums may saturate (graph/core/pair_order.h). */
static bool prove_pairs(struct qc_job *j, struct qc_status *st)
{
    const struct qc_graph *g = j->p.produced;
    struct qc_pair_proof proof;
    char label[QC_LABEL];
    qc_prove_pairs(&proof, g);
    j->r.pairs.products = proof.products;
    j->r.pairs.saturating = proof.saturating;
    j->r.pairs.channels = j->p.calibration->paired;
    j->r.pairs.first = NULL;
    if (!proof.first) return true;
    const struct qc_node *n = &g->nodes[proof.first];
    const char *name = qc_node_label(label, g, n);
    return (j->r.pairs.first = qc_arena_strdup(j->p.arena, name, st)) != NULL;
}

static bool count_ops(struct qc_job *j, struct qc_status *st)
{
    struct qc_report *r = &j->r;
    if (!prove_pairs(j, st)) return false;
    return qc_float_ops(&r->float_ops, &r->float_op_count, &r->quantized_ops, &j->p, st) &&
           qc_body_jobs_ops(r, &j->p, st) && qc_fill_groups(r, &j->p, st) && check_integer(j, st);
}

/* Widens layers if outputs have lost too much; the report then has the figures of the changed network. */
static bool mend(struct qc_job *j, struct qc_status *st)
{
    const double t0 = qc_seconds();
    struct qc_report_fallback *path;
    bool again;
    if (j->p.from->data && !qc_model_select(j->p.from->data, j->p.options, NULL, st)) return false;
    if (!qc_mend(&path, &again, &j->p, j->measurement, st)) return false;
    if (!again) return true;
    if (path) j->r.fallback = path;
    j->r.fallback_seconds = qc_seconds() - t0;
    qc_measurement_free(j->measurement);
    j->measurement = NULL;
    return qc_pipeline_tell_again(&j->p, st) && count_ops(j, st) &&
           (!path || !path->met || evaluate_quantized(j, st)) && measure_layers(j, st);
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
    const unsigned bits = j->p.how.accumulator.bits;
    if (!bits || bits == 32) return NULL;
    return j->p.from->eval ? &j->has.overflows : j->measurement ? &j->measurement->overflows : NULL;
}

static bool fill_accumulator(struct qc_job *j, struct qc_status *st)
{
    const struct qc_overflows none = {0}, *overflows = counted(j) ? counted(j) : &none;
    qc_warn_overflows(j->p.warnings, overflows, j->p.how.accumulator.bits, NULL);
    return qc_fill_accumulator(&j->r, &j->p, overflows, j->p.from->eval ? j->r.eval_file : j->r.data_file,
                               j->p.from->eval  ? j->r.eval_samples
                               : j->measurement ? j->measurement->samples
                                                : 0,
                               st);
}

/* Fills in files and hashes of the inputs; without samples those of the statistics stand for the data. */
static bool name_inputs(struct qc_job *j, struct qc_status *st)
{
    struct qc_report *r = &j->r;
    const struct qc_job_inputs *in = &j->in;
    const bool statistics = qc_has_statistics(in);
    r->model_file = in->model.file;
    r->statistics_file = statistics ? qc_statistics_name(in) : NULL;
    r->data_file = j->p.from->data ? qc_dataset_file(j->p.from->data) : r->statistics_file;
    if (!qc_model_sha256(j->model_sha, &in->model, st)) return false;
    if (j->p.from->data && !qc_data_sha256(j->data_sha, &in->data, j->p.from->data, st)) return false;
    if (in->statistics.file && !qc_sha256_file(j->stats_sha, in->statistics.file, st)) return false;
    if (!j->p.from->data) memcpy(j->data_sha, j->stats_sha, sizeof j->data_sha);
    r->model_sha256 = j->model_sha;
    r->data_sha256 = j->data_sha;
    r->statistics_sha256 = statistics ? j->stats_sha : NULL;
    r->model_bytes = j->p.from->model.graph->budget.model_bytes;
    return true;
}

/* Fills in the results for --min-sqnr and --max-nll. --max-drop needs none: the report has the accuracy anyhow. */
static bool fill_demand(struct qc_job *j, struct qc_status *st)
{
    const struct qc_demand *d = &j->demand;
    if (isnan(d->min_sqnr) && isnan(d->max_nll)) return true;
    struct qc_report_demand *to = QC_NEW(j->p.arena, struct qc_report_demand, st);
    if (!to) return false;
    *to = (struct qc_report_demand){.min_sqnr = d->min_sqnr,
                                    .sqnr_db = j->has.sqnr_db,
                                    .output = j->has.output,
                                    .file = d->file,
                                    .samples = qc_demand_samples(d),
                                    .max_nll = d->max_nll,
                                    .nll = isnan(d->max_nll) ? (double)NAN : j->has.metric.nll,
                                    .met = qc_demand_met(d, &j->has)};
    j->r.demand = to;
    return true;
}

/* True if a part of the model has integer operators. */
static bool has_integer_ops(const struct qc_graph *g)
{
    struct qc_qlinear q;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const enum qc_op op = g->nodes[id].op;
        if (op == QC_OP_DynamicQuantizeLinear || op == QC_OP_MatMulInteger || op == QC_OP_ConvInteger ||
            qc_qlinear_of(&q, &g->nodes[id]))
            return true;
    }
    return false;
}

static bool fill_job_report(struct qc_job *j, struct qc_status *st)
{
    const struct qc_pipeline *p = &j->p;
    const struct qc_options *o = p->options;
    struct qc_report *r = &j->r;
    r->version = QC_VERSION;
    r->weight_type = o->weight_types.items[0];
    r->caches = p->partition->cache_count;
    r->cache_type = o->kv_type;
    r->bias_narrowed = strcmp(o->bias, "narrowed") == 0;
    if (!name_inputs(j, st) || !qc_pipeline_command(&r->command, p, NULL, st)) return false;
    if (!*j->data_sha) r->data_sha256 = NULL; /* statistics in memory have no hash */
    if (!*j->stats_sha) r->statistics_sha256 = NULL;
    if (p->from->data) {
        r->data_total = qc_dataset_total(p->from->data);
        r->data_made = qc_dataset_made(p->from->data);
        r->data_dropped = qc_dataset_dropped(p->from->data);
    } else {
        r->data_samples = (size_t)qc_collection_samples(p->seen);
        for (size_t i = 0; i < p->seen->part_count; i++) r->data_total += (size_t)p->seen->parts[i].samples;
    }
    if (!qc_warn_samples(p->warnings, p->from->data ? r->data_samples : 0, &j->in, p->arena, st)) return false;
    r->statistics_samples = qc_has_statistics(p->in) ? (size_t)qc_collection_samples(p->seen) : 0;
    fill_accuracy(j);
    if (!fill_demand(j, st)) return false;
    if (!qc_fill_layers(r, p, j->measurement, counted(j), st) || !fill_accumulator(j, st) ||
        !qc_fill_scaled(r, p, st) || !qc_fill_centred(r, p, st))
        return false;
    size_t count = p->folded->output_count;
    struct qc_report_output *outputs = QC_NEW_ARRAY(p->arena, struct qc_report_output, count, st);
    if (!outputs) return false;
    for (size_t k = 0; k < count; k++) {
        const struct qc_error *e = j->measurement ? &j->measurement->outputs[k] : NULL;
        outputs[k] = (struct qc_report_output){.name = p->folded->outputs[k].name,
                                               .sqnr_db = e ? qc_error_sqnr_db(e) : (double)NAN,
                                               .cosine = e ? qc_error_cosine(e) : (double)NAN,
                                               .max_abs = e ? e->max_abs : (double)NAN};
    }
    r->outputs = outputs;
    r->output_count = count;
    r->measured_samples = j->measurement ? j->measurement->samples : 0;
    r->import_seconds = p->from->import_seconds;
    r->collect_seconds = p->collect_seconds;
    r->solve_seconds = p->calibration->solve_seconds;
    r->rounding_seconds = p->weight_rounding ? p->weight_rounding->seconds : 0;
    if (p->auto_method) {
        r->trials = p->auto_method->trials;
        r->trial_count = p->auto_method->trial_count;
        r->solve_seconds += p->auto_method->seconds;
        r->rounding_seconds += p->auto_method->rounding_seconds;
    }
    r->crossed = p->crossed.tried;
    r->crossed_gain_db = p->crossed.gain_db;
    r->crossed_kept = p->crossed.kept;
    r->output_bias_outputs = p->output_bias.outputs;
    r->output_bias_units = p->output_bias.units;
    r->output_bias_gain_db = p->output_bias.gain_db;
    r->measure_seconds = j->measurement ? j->measurement->seconds : 0;
    r->export_seconds = p->export_seconds;
    r->quantized_in_part = p->from->given.count || p->from->given.literal || has_integer_ops(p->from->model.graph);
    for (size_t i = 0; i < p->from->given.count; i++) r->unrounded += !p->from->given.of[i].weight;
    r->linear_left = p->from->given.literal;
    r->kept = p->kept;
    r->quantizers = p->quantizers;
    r->workers = p->cost.workers;
    r->worker_bytes = p->cost.runner_bytes;
    r->constant_bytes = p->cost.constant_bytes;
    r->statistics_bytes = p->cost.statistics_bytes;
    return qc_fill_nodes(r, p, st);
}

static bool fill_warnings(struct qc_job *j, struct qc_status *st)
{
    const struct qc_pipeline *p = &j->p;
    const size_t count = qc_warnings_count(p->warnings);
    if (qc_warnings_lost(p->warnings)) return qc_fail_memory(st, 1); /* the report would not be whole */
    const char **warnings = QC_NEW_ARRAY(p->arena, const char *, count, st);
    for (size_t i = 0; warnings && i < count; i++) warnings[i] = qc_warnings_text(p->warnings, i);
    j->r.warnings = warnings;
    j->r.warning_count = count;
    return warnings != NULL;
}

/* Fills in the advice, the layers of bodies and all warnings. */
static bool advise(struct qc_job *j, struct qc_status *st)
{
    struct qc_ideas ideas = {.count = 0};
    return qc_fill_advice(&j->r, &ideas, &j->p, j->measurement, j->sensitivity, st) &&
           qc_body_jobs_layers(&j->r, &j->p, st) && qc_warn_useless(&j->r, &ideas, &j->p, j->measurement, st) &&
           fill_warnings(j, st);
}

bool qc_job_new(struct qc_job **out, const struct qc_options *o, const struct qc_job_inputs *in,
                const struct qc_job_listener *listener, struct qc_status *st)
{
    struct qc_job *j = calloc(1, sizeof *j);
    if (!j) return qc_fail_memory(st, sizeof *j);
    struct qc_pipeline *p = &j->p;
    j->started = qc_seconds();
    p->quantize_body = qc_quantize_body;
    j->in = *in;
    if (listener) {
        p->progress = listener->progress;
        p->stage_done = listener->stage_done;
        p->stage_user = listener->stage_user;
    }
    bool ok = o->command == QC_COMMAND_collect ? qc_pipeline_begin_collect(p, o, &j->in, st)
                                               : qc_pipeline_begin(p, o, &j->in, st);
    ok = ok && (j->files = QC_NEW_ARRAY(p->arena, const char *, p->from->lowered_count + 1, st)) &&
         (j->file_bytes = QC_NEW_ARRAY(p->arena, size_t, p->from->lowered_count + 1, st));
    j->r.files = j->files;
    j->r.file_bytes = j->file_bytes;
    return QC_HAND_OVER(ok, out, j, qc_job_free);
}

void qc_job_free(struct qc_job *j)
{
    if (!j) return;
    qc_demand_end(&j->demand);
    qc_measurement_free(j->measurement);
    qc_sensitivity_free(j->sensitivity);
    qc_body_jobs_free(&j->p);
    qc_pipeline_end(&j->p);
    free(j);
}

struct qc_job_inputs qc_job_inputs_of(const struct qc_options *o, const char *model_file)
{
    return (struct qc_job_inputs){.model = {.file = model_file},
                                  .data = {.file = o->data},
                                  .eval = {.file = o->eval},
                                  .statistics = {.file = o->stats}};
}

const struct qc_warnings *qc_job_warnings(const struct qc_job *j)
{
    return j->p.warnings;
}

size_t qc_job_format_count(const struct qc_job *j)
{
    return j->p.from->lowered_count;
}

const struct qc_exporter *qc_job_format(const struct qc_job *j, size_t format)
{
    return j->p.from->exporters[format];
}

const struct qc_pipeline *qc_job_pipeline(const struct qc_job *j)
{
    return &j->p;
}

/* --size: chooses the bits of weights and runs the stages with them. */
static bool fit_size(struct qc_job *j, struct qc_status *st)
{
    struct qc_report_size *size;
    if (!j->p.options->size) return true;
    if (!qc_fit_size(&size, &j->p, st) || !qc_pipeline_tell_again(&j->p, st)) return false;
    j->r.size = size;
    return true;
}

/* --benchmark: chooses the operators in float and runs the stages with them. */
static bool place(struct qc_job *j, struct qc_status *st)
{
    const struct qc_options *before = j->p.options;
    if (!before->benchmark) return true;
    if (!qc_place_by_latency(&j->latency, &j->p, st)) return false;
    j->r.latency = j->latency;
    return j->p.options == before || qc_pipeline_tell_again(&j->p, st);
}

/* Measures the latency again if a demand has changed the network. */
static bool measure_latency_again(struct qc_job *j, struct qc_status *st)
{
    return !j->latency || !j->r.fallback || qc_placement_measure_again(j->latency, &j->p, st);
}

bool qc_job_run(struct qc_job *j, struct qc_status *st)
{
    const unsigned before = qc_pool_share((unsigned)j->p.options->threads);
    const bool ok = qc_placement_check(&j->p, st) && qc_pipeline_run(&j->p, st) && fit_size(j, st) && place(j, st) &&
                    count_ops(j, st) && evaluate(j, st) && begin_demand(j, st) && improve(j, st) &&
                    (!j->r.fallback || count_ops(j, st)) && measure_layers(j, st) && mend(j, st) &&
                    measure_latency_again(j, st) && fill_job_report(j, st) && advise(j, st);
    qc_pool_share(before);
    return ok;
}

bool qc_job_write(struct qc_job *j, size_t format, const char *path, struct qc_status *st)
{
    const struct qc_pipeline *p = &j->p;
    const struct qc_export_source source = {.produced = qc_graph_written(p), .expanded = p->expanded};
    struct qc_report *r = &j->r;
    const double t0 = qc_seconds();
    const char *name = qc_arena_strdup(p->arena, path, st);
    size_t bytes;
    assert(format < p->from->lowered_count && r->file_count < p->from->lowered_count);
    if (!name || !qc_export_file(&bytes, path, p->from->exporters[format], &source, p->lowered[format], st))
        return false;
    j->files[r->file_count] = name;
    j->file_bytes[r->file_count++] = bytes;
    r->export_seconds += qc_seconds() - t0;
    return true;
}

const struct qc_report *qc_job_report(struct qc_job *j)
{
    j->r.total_seconds = qc_seconds() - j->started;
    return &j->r;
}

bool qc_job_report_json(struct qc_json **out, struct qc_job *j, struct qc_status *st)
{
    qc_job_report(j);
    j->r.options = qc_options_json(j->p.options);
    if (!j->r.options) return qc_fail_memory(st, 1);
    struct qc_json *json = qc_report_json(&j->r);
    j->r.options = NULL; /* taken */
    if (!qc_json_is_whole(json)) {
        qc_json_free(json);
        return qc_fail_memory(st, 1);
    }
    *out = json;
    return true;
}

void qc_job_done(const struct qc_job *j)
{
    qc_collecting_end(j->p.options);
    qc_latency_forget(j->p.options);
}

bool qc_job_collect(struct qc_collect_result *out, struct qc_job *j, struct qc_status *st)
{
    struct qc_pipeline *p = &j->p;
    struct qc_collecting what = {0};
    struct qc_collect_cost cost = {0};
    qc_id *values;
    const char **names;
    const int *axes = NULL;
    if (!qc_pipeline_normalise(p, st)) return false;
    const double t0 = qc_seconds();
    if (!qc_observable_values(&what.count, &values, p->from->normalised, p->from->rules, p->arena, st) ||
        !(names = QC_NEW_ARRAY(p->arena, const char *, what.count, st)))
        return false;
    for (size_t i = 0; i < what.count; i++) names[i] = p->from->normalised->values[values[i]].name;
    if (strcmp(p->options->channel_statistics, "on") == 0 &&
        !qc_named_channel_axes(&axes, what.count, names, p->from->normalised, p->arena, st))
        return false;
    what.graph = p->from->normalised;
    what.values = values;
    what.names = names;
    what.channel_axes = axes;
    qc_progress_phase(p->progress, "collecting");
    const bool ok = qc_collecting_run(&p->seen, &cost, p, &what, st);
    qc_progress_end(p->progress);
    if (ok)
        *out = (struct qc_collect_result){.statistics = p->seen,
                                          .tensors = what.count,
                                          .workers = cost.workers,
                                          .seconds = qc_seconds() - t0};
    return ok;
}

struct qc_collection *qc_job_take_statistics(struct qc_job *j)
{
    struct qc_collection *c = j->p.seen;
    j->p.seen = NULL;
    return c;
}
