// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "quantize/chance.h"
#include "cli/cmd.h"
#include "quantize/collecting.h"
#include "quantize/command_text.h"
#include "quantize/fallback.h"
#include "quantize/integer_options.h"
#include "cli/interrupt.h"
#include "quantize/quantize_report.h"
#include "cli/screen.h"
#include "graph/multiply_adds.h"

/* Samples on which layers are compared one by one; accuracy is measured on all of --eval. */
enum { MEASURED = 16 };

struct job {
    struct qc_pipeline p;
    struct qc_metric metric[2]; /* on it: of the float network, of what is written */
    struct qc_sensitivity *sensitivity;
    struct qc_measurement *measurement;
    struct qc_overflows overflows; /* on --eval */
    struct qc_report r;
    const char **model_paths; /* one per format */
    const char *folder;       /* of the report, or NULL */
    char model_sha[65], data_sha[65], stats_sha[65];
    double started;
};

static bool name_outputs(struct job *j, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_arena *a = o->arena;
    const char *stem = qc_stem(a, o->operands.items[0], st);
    size_t n = j->p.lowered_count;
    if (!stem || !(j->model_paths = QC_NEW_ARRAY(a, const char *, n, st))) return false;
    if (o->output && n > 1) return qc_fail(st, QC_USAGE, "-o names one file, but --format asks for %zu; leave one of them out", n);
    for (size_t i = 0; i < n; i++)
        if (!(j->model_paths[i] = o->output ? o->output : qc_arena_printf(a, st, "%s%s", stem, j->p.exporters[i]->suffix)) ||
            !qc_output_check(j->model_paths[i], st))
            return false;
    if (o->report && !*o->report) return true;
    const char *base = o->output ? qc_stem(a, o->output, st) : NULL;
    const char *slash = o->output ? strrchr(o->output, '/') : NULL;
    if (o->report) j->folder = o->report;
    else if (base) j->folder = qc_arena_printf(a, st, "%.*s%s.report", slash ? (int)(slash - o->output) + 1 : 0, o->output, base);
    else j->folder = qc_arena_printf(a, st, "%s.int8.report", stem);
    return j->folder != NULL;
}

/* The report's folder can be made and written: known before the work begins. */
static bool check_folder(const char *folder, struct qc_arena *a, struct qc_status *st)
{
    struct stat s;
    if (!folder) return true;
    if (stat(folder, &s) == 0) {
        const char *file = qc_arena_printf(a, st, "%s/report.json", folder);
        return file && qc_output_check(file, st);
    }
    return qc_output_check(folder, st);
}

static bool measure(struct job *j, struct qc_status *st)
{
    const struct qc_cli_options *o = j->p.options;
    if (!j->p.data) return true;
    struct qc_selection some = {.samples = MEASURED * (size_t)(qc_dataset_batch(j->p.data) > 1 ? qc_dataset_batch(j->p.data) : 1)};
    struct qc_measure_options m = {.workers = (unsigned)o->threads, .memory_limit = (size_t)o->memory_limit, .accumulator = j->p.how.accumulator, .rounding = j->p.how.rounding,
                                   .progress = qc_progress_step, .progress_user = j->p.progress};
    j->r.data_samples = qc_dataset_samples(j->p.data);
    if (j->r.data_samples > some.samples && !qc_dataset_select(j->p.data, &some, st)) return false;
    qc_progress_phase(j->p.progress, "comparing layers");
    bool ok = qc_measure(&j->measurement, j->p.real, j->p.folded, j->p.data, &m, st);
    qc_progress_end(j->p.progress);
    return ok;
}

static bool evaluate(struct job *j, struct qc_status *st)
{
    const struct qc_cli_options *o = j->p.options;
    const struct qc_graph *graphs[2] = {j->p.normalised, j->p.produced};
    if (!j->p.eval) return true;
    for (int i = 0; i < 2; i++) {
        qc_progress_phase(j->p.progress, i ? "accuracy int8" : "accuracy float");
        bool ok = qc_evaluate_sums(&j->metric[i], &j->overflows, j->p.arena, graphs[i], j->p.eval, i ? &j->p.how : NULL, (unsigned)o->threads, (size_t)o->memory_limit,
                                   qc_progress_step, j->p.progress, st);
        qc_progress_end(j->p.progress);
        if (!ok) return false;
    }
    const struct qc_metric *const real[] = {&j->metric[0]};
    qc_warn_chance(j->p.warnings, real, 1, o->eval);
    j->r.eval_seconds = j->metric[0].seconds + j->metric[1].seconds;
    return true;
}

/* What layers do, where that is asked for or needed; and wider types for some where accuracy falls too far. */
static bool improve(struct job *j, struct qc_status *st)
{
    const struct qc_cli_options *o = j->p.options;
    const bool missed = j->p.eval && !isnan(o->max_drop) && qc_metric_drop(&j->metric[0], &j->metric[1]) > o->max_drop;
    struct qc_report *r = &j->r;
    if (!o->sensitivity && !missed) return true;
    if (!qc_measure_sensitivity(&j->sensitivity, &j->p, j->p.eval, st) || !qc_fill_effects(r, j->sensitivity, j->p.arena, st)) return false;
    if (!missed) return true;
    const double t0 = qc_seconds();
    const struct qc_demand demand = {.eval = j->p.eval, .fp32 = j->metric[0], .limit = o->max_drop};
    struct qc_report_fallback *path;
    qc_sensitivity_sort(j->sensitivity, QC_EFFECTS_BY_NOISE); /* fewer layers do: docs/decisions/0016-sensitivity-by-cuts.md */
    if (!qc_fall_back(&path, &j->metric[1], &j->overflows, &j->p, &demand, j->sensitivity, st)) return false;
    r->fallback = path;
    r->fallback_seconds = qc_seconds() - t0;
    return path->step_count < 2 || qc_pipeline_dump_again(&j->p, st);
}

static void fill_accuracy(struct job *j)
{
    struct qc_report *r = &j->r;
    const struct qc_metric *m = j->metric;
    r->int8_share = qc_int8_share(j->p.produced);
    if (!j->p.eval) return;
    r->metric = m[0].name;
    r->eval_file = j->p.options->eval;
    r->eval_samples = m[0].samples;
    r->fp32 = m[0].value;
    r->int8 = m[1].value;
    r->fp32_low = m[0].low;
    r->fp32_high = m[0].high;
    r->int8_low = m[1].low;
    r->int8_high = m[1].high;
    r->fp32_top5 = m[0].top5;
    r->int8_top5 = m[1].top5;
}

static bool check_integer(const struct job *j, struct qc_status *st)
{
    char list[1500] = "";
    size_t at = 0;
    if (!j->p.options->require_integer || !j->r.float_op_count) return true;
    for (size_t i = 0; i < j->r.float_op_count && at + 100 < sizeof list; i++) {
        const struct qc_float_op *f = &j->r.float_ops[i];
        qc_text(list + at, (unsigned)(sizeof list - at), "%s'%.60s' (%s: %s)", i ? ", " : "", f->name, f->op, f->reason);
        at += strlen(list + at);
    }
    return qc_fail(st, QC_DEMAND, "--require-integer: %zu op%s stay%s in float: %s", j->r.float_op_count, j->r.float_op_count == 1 ? "" : "s",
                   j->r.float_op_count == 1 ? "s" : "", list);
}

static bool count_ops(struct job *j, struct qc_status *st)
{
    struct qc_report *r = &j->r;
    return qc_float_ops(&r->float_ops, &r->float_op_count, &r->quantized_ops, &j->p, st) && qc_fill_groups(r, &j->p, st) && check_integer(j, st);
}

static bool check_drop(const struct job *j, struct qc_status *st)
{
    const double limit = j->p.options->max_drop;
    if (isnan(limit)) return true;
    const struct qc_metric *m = j->metric;
    const bool psnr = m[0].kind == QC_METRIC_PSNR;
    const double drop = qc_metric_drop(&m[0], &m[1]), unit = psnr ? 1 : 100;
    if (drop <= limit) return true;
    return qc_fail(st, QC_DEMAND, "--max-drop %g: %s falls by %.2f %s (%.2f to %.2f), and wider types for the worst layers did not mend it; no model was written, the report shows the layers and what was tried",
                   limit, psnr ? "PSNR" : "top-1", drop, psnr ? "dB" : "points", unit * m[0].value, unit * m[1].value);
}

/* What accumulators did on --eval, else on the samples that were measured; without either, nothing is known. */
static const struct qc_overflows *counted(const struct job *j)
{
    const unsigned bits = j->p.how.accumulator.bits;
    if (!bits || bits == 32) return NULL;
    return j->p.eval ? &j->overflows : j->measurement ? &j->measurement->overflows : NULL;
}

static bool fill_accumulator(struct job *j, struct qc_status *st)
{
    const struct qc_overflows none = {0}, *overflows = counted(j) ? counted(j) : &none;
    qc_warn_overflows(j->p.warnings, overflows, j->p.how.accumulator.bits, NULL);
    return qc_fill_accumulator(&j->r, &j->p, overflows, j->p.eval ? j->r.eval_file : j->r.data_file,
                               j->p.eval ? j->r.eval_samples : j->measurement ? j->measurement->samples : 0, st);
}

static bool fill_report(struct job *j, struct qc_status *st)
{
    const struct qc_pipeline *p = &j->p;
    const struct qc_cli_options *o = p->options;
    struct qc_report *r = &j->r;
    struct stat s;
    r->version = QC_VERSION;
    r->bias_narrowed = strcmp(o->bias, "narrowed") == 0;
    r->model_file = o->operands.items[0];
    r->data_file = p->data ? qc_dataset_file(p->data) : o->stats;
    r->statistics_file = o->stats;
    if (!qc_sha256_file(j->model_sha, r->model_file, st) || !qc_sha256_file(j->data_sha, r->data_file, st) || !qc_command_text(&r->command, o, NULL, st)) return false;
    if (o->stats && !qc_sha256_file(j->stats_sha, o->stats, st)) return false;
    r->model_sha256 = j->model_sha;
    r->data_sha256 = j->data_sha;
    r->statistics_sha256 = o->stats ? j->stats_sha : NULL;
    r->model_bytes = stat(r->model_file, &s) == 0 ? (size_t)s.st_size : 0;
    if (p->data) {
        r->data_total = qc_dataset_total(p->data);
        r->data_dropped = qc_dataset_dropped(p->data);
    } else {
        r->data_samples = (size_t)qc_collection_samples(p->seen);
        for (size_t i = 0; i < p->seen->part_count; i++) r->data_total += (size_t)p->seen->parts[i].samples;
    }
    r->statistics_samples = o->stats ? (size_t)qc_collection_samples(p->seen) : 0;
    fill_accuracy(j);
    if (!qc_fill_layers(r, p, j->measurement, counted(j), st) || !fill_accumulator(j, st)) return false;
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
    r->import_seconds = p->import_seconds;
    r->collect_seconds = p->collect_seconds;
    r->solve_seconds = p->calibration->solve_seconds;
    r->rounding_seconds = p->reweighing ? p->reweighing->seconds : 0;
    r->measure_seconds = j->measurement ? j->measurement->seconds : 0;
    r->export_seconds = p->export_seconds;
    r->workers = p->cost.workers;
    r->worker_bytes = p->cost.runner_bytes;
    r->constant_bytes = p->cost.constant_bytes;
    r->statistics_bytes = p->cost.statistics_bytes;
    const char **warnings = QC_NEW_ARRAY(p->arena, const char *, qc_warnings_count(p->warnings), st);
    for (size_t i = 0; warnings && i < qc_warnings_count(p->warnings); i++) warnings[i] = qc_warnings_text(p->warnings, i);
    r->warnings = warnings;
    r->warning_count = qc_warnings_count(p->warnings);
    /* Advice is a command with an option more than was given: where layers have wider types already it would be about another graph. */
    return warnings && qc_fill_nodes(r, p, st) && ((r->fallback && r->fallback->met) || qc_fill_suggestions(r, p, j->measurement, st));
}

/* The model files first, the report last: a report never speaks of files that are not there. */
static bool write_files(struct job *j, bool models, struct qc_status *st)
{
    struct qc_pipeline *p = &j->p;
    struct qc_report *r = &j->r;
    const char **files = QC_NEW_ARRAY(p->arena, const char *, p->lowered_count + 1, st);
    size_t *bytes = QC_NEW_ARRAY(p->arena, size_t, p->lowered_count + 1, st);
    struct stat s;
    double t0 = qc_seconds();
    if (!files || !bytes) return false;
    for (size_t i = 0; models && i < p->lowered_count; i++) {
        const struct qc_export_source source = {.produced = p->produced, .expanded = p->expanded};
        if (!qc_export_file(j->model_paths[i], p->exporters[i], &source, p->lowered[i], st)) return false;
        files[r->file_count] = j->model_paths[i];
        bytes[r->file_count++] = stat(j->model_paths[i], &s) == 0 ? (size_t)s.st_size : 0;
    }
    r->files = files;
    r->file_bytes = bytes;
    r->export_seconds += qc_seconds() - t0;
    r->total_seconds = qc_seconds() - j->started;
    return true;
}

static bool report(struct job *j, struct qc_status *st)
{
    const struct qc_cli_options *o = j->p.options;
    struct qc_report *r = &j->r;
    r->options = qc_options_json(o);
    struct qc_json *json = qc_report_json(r);
    bool ok = !j->folder || qc_report_write(r, json, j->folder, st);
    if (ok && !o->quiet && !o->json) {
        qc_print_summary(r);
        if (j->folder) printf("report      %s\n", j->folder);
    }
    if (o->json && ok) return qc_print_json(json, st);
    qc_json_free(json);
    return ok;
}

bool qc_cmd_quantize(const struct qc_cli_options *o, struct qc_status *st)
{
    struct job j = {.started = qc_seconds()};
    struct qc_pipeline *p = &j.p;
    bool ok = qc_pipeline_begin(p, o, st) && name_outputs(&j, o, st) && check_folder(j.folder, o->arena, st) && qc_pipeline_run(p, st) &&
              count_ops(&j, st) && evaluate(&j, st) && improve(&j, st) && (!j.r.fallback || count_ops(&j, st)) && measure(&j, st) &&
              fill_report(&j, st);
    if (ok) {
        struct qc_status demand = QC_STATUS_INIT;
        bool met = check_drop(&j, &demand);
        ok = qc_interrupt_check(st) && write_files(&j, met, st) && report(&j, st);
        if (ok && !met) *st = demand;
        ok = ok && met;
    }
    if (ok) qc_collecting_end(o);
    if (p->warnings && !o->quiet) qc_warnings_print(p->warnings, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
    qc_measurement_free(j.measurement);
    qc_sensitivity_free(j.sensitivity);
    qc_pipeline_end(p);
    return ok;
}
