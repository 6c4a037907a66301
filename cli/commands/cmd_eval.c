// SPDX-License-Identifier: Apache-2.0
/* qcalib eval MODEL [MODEL ...] --data TEST.h5 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "calib/metrics/accuracy.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "evaluate/evaluate.h"
#include "quantize/options/option_value.h"
#include "quantize/search/own_metric.h"
#include "quantize/setup/model.h"

struct measured {
    const char *path;
    struct qc_metric metric;
    struct qc_overflows overflows;
};

static bool measure_evaluated(struct measured *m, const char *path, const struct qc_settings *settings,
                              struct qc_progress *progress, struct qc_warnings *w, const struct qc_cli_options *o,
                              struct qc_status *st)
{
    struct qc_model_run run = {0};
    qc_progress_phase(progress, "%s", qc_base_name(path));
    m->path = path;
    const bool own = o->job.data.metric, of_file = own && !qc_own_metric_reads_outputs(&o->job);
    bool ok =
        of_file ? qc_own_metric_of_file(&m->metric, &o->job, path, progress, st)
                : qc_model_run_open(&run, &(struct qc_model_source){.file = path},
                                    &(struct qc_data_source){.file = o->job.data.file}, QC_USE_TRUTH, &o->job, w, st) &&
                      qc_interrupt_check(st);
    if (own && !of_file)
        ok = (ok && qc_own_metric_of_outputs(&m->metric, run.model.graph, run.data, &settings->plan, &o->job, settings,
                                             progress, st)) ||
             qc_where(st, "%s", path);
    const struct qc_evaluation e = {.graph = run.model.graph,
                                    .data = run.data,
                                    .how = &settings->plan,
                                    .settings = settings};
    if (ok && !own && !qc_evaluate_sums(&m->metric, &m->overflows, &e, o->job.arena, st)) ok = qc_where(st, "%s", path);
    if (ok && !own)
        qc_warn_overflows(w, &m->overflows, settings->plan.accumulator.bits,
                          o->operands.count > 1 ? qc_base_name(path) : NULL);
    qc_progress_end(progress);
    qc_model_run_close(&run);
    return ok;
}

static bool print_metrics_json(const struct measured *all, size_t count, const struct qc_warnings *w,
                               const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_json *root = qc_json_object(), *models = qc_json_array();
    for (size_t i = 0; i < count; i++) {
        const struct qc_metric *m = &all[i].metric;
        struct qc_json *one = qc_json_object();
        qc_json_put(one, "file %s metric %s value %g samples %zu seconds %g", all[i].path, m->name, m->value,
                    m->samples, m->seconds);
        if (m->kind == QC_METRIC_TOP1) {
            qc_json_set(one, "interval95", qc_json_pair(qc_json_number(m->low), qc_json_number(m->high)));
            qc_json_put(one, "top5 %g nll %g", m->top5, m->nll);
            if (m->positions) qc_json_put(one, "perplexity %g positions %zu", exp(m->nll), m->positions);
        } else if (m->kind == QC_METRIC_OWN) {
            qc_json_set(one, "lower_is_better", qc_json_bool(m->lower_is_better));
        } else {
            qc_json_set(one, "mse", qc_json_number(m->mse));
        }
        if (o->job.types.accumulator) qc_json_set(one, "overflows", qc_overflows_json(&all[i].overflows));
        qc_json_add(models, one);
    }
    qc_json_set(root, "models", models);
    qc_json_set(root, "warnings", qc_warnings_json(w));
    return qc_print_json(root, st);
}

static void print_metrics(const struct measured *all, size_t count, const char *file)
{
    int width = 5;
    for (size_t i = 0; i < count; i++) {
        int n = (int)strlen(qc_base_name(all[i].path));
        width = n > width ? n < 48 ? n : 48 : width;
    }
    const bool top1 = all[0].metric.kind == QC_METRIC_TOP1, sequences = all[0].metric.positions > 0;
    const bool own = all[0].metric.kind == QC_METRIC_OWN;
    if (!own) qc_say("data   %s\n", file);
    fputs(qc_style(stdout, QC_STYLE_BOLD), stdout);
    if (own)
        qc_say("%-*s        metric  seconds", width, "model");
    else
        qc_say("%-*s  %s  %8s  %7s", width, "model",
               !top1       ? " PSNR dB           MSE"
               : sequences ? "   top-1     95 % interval     top-5      nll  perplexity"
                           : "   top-1     95 % interval     top-5",
               "samples", "seconds");
    puts(qc_style(stdout, QC_STYLE_PLAIN));
    for (size_t i = 0; i < count; i++) {
        qc_say("%-*s", width, qc_base_name(all[i].path));
        const struct qc_metric *m = &all[i].metric;
        if (m->kind == QC_METRIC_TOP1) {
            qc_say("  %6.2f %%  %5.2f - %6.2f %%", 100 * m->value, 100 * m->low, 100 * m->high);
            if (isnan(m->top5))
                qc_say("         -");
            else
                qc_say("  %6.2f %%", 100 * m->top5);
            if (m->positions) qc_say("  %7.4f  %10.4f", m->nll, exp(m->nll));
        } else if (m->kind == QC_METRIC_OWN) {
            qc_say("  %12.6g  %7.2f\n", m->value, m->seconds);
            continue;
        } else {
            qc_say("  %8.2f  %12.6g", m->value, m->mse);
        }
        qc_say("  %8s  %7.2f\n", QC_COUNT(m->samples), m->seconds);
    }
}

bool qc_cmd_eval(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_warnings *w = NULL;
    struct qc_progress *progress = NULL;
    struct qc_settings settings;
    if (!o->job.data.file && (!o->job.data.metric || qc_own_metric_reads_outputs(&o->job)))
        return qc_fail(st, QC_USAGE,
                       "eval needs --data FILE with labels or target, or --metric; see 'qcalib help eval'");
    const size_t count = o->operands.count;
    struct measured *all = QC_NEW_ARRAY(o->job.arena, struct measured, count, st);
    const struct qc_metric **metrics = QC_NEW_ARRAY(o->job.arena, const struct qc_metric *, count, st);
    bool ok = all && metrics && qc_warnings_new(&w, st) && qc_progress_bar_new(&progress, o, st) &&
              qc_settings_of(&settings, &o->job, progress, st);
    for (size_t i = 0; ok && i < count; i++) {
        ok = measure_evaluated(&all[i], o->operands.items[i], &settings, progress, w, o, st);
        metrics[i] = &all[i].metric;
    }
    if (ok && !o->job.data.metric && (settings.plan.accumulator.bits == 0 || settings.plan.accumulator.bits >= 32))
        qc_warn_chance_level(w, metrics, count, o->job.data.file); /* otherwise overflows are the cause */
    const bool measured = ok;
    if (ok && o->json)
        ok = print_metrics_json(all, count, w, o, st);
    else if (ok && !o->quiet)
        print_metrics(all, count, o->job.data.file);
    if (measured) qc_warnings_print(w, o);
    qc_progress_bar_free(progress);
    qc_warnings_free(w);
    return ok;
}
