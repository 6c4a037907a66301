// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/own_metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/command.h"
#include "base/file_map.h"
#include "datasets/stream/data_writer.h"
#include "export/formats/exporter.h"
#include "onnx/write/emit.h"
#include "quantize/make/make.h"
#include "quantize/search/searches.h"

static const char LOWER[] = "lower:", HIGHER[] = "higher:";

static bool may_go_on(void *user, struct qc_status *st)
{
    return qc_progress_check(user, st);
}

static bool measure(struct qc_metric *out, const struct qc_options *o, const char *file, struct qc_progress *progress,
                    struct qc_arena *a, struct qc_status *st)
{
    const bool lower = strncmp(o->data.metric, LOWER, strlen(LOWER)) == 0,
               higher = strncmp(o->data.metric, HIGHER, strlen(HIGHER)) == 0;
    const char *text = o->data.metric + (lower ? strlen(LOWER) : higher ? strlen(HIGHER) : 0), *said, **words;
    const double nan = (double)NAN, start = qc_seconds();
    size_t count;
    const char *outputs = strstr(text, QC_COMMAND_OUTPUTS);
    if (outputs && !(text = qc_arena_printf(a, st, "%.*s" QC_COMMAND_FILE "%s", (int)(outputs - text), text,
                                            outputs + strlen(QC_COMMAND_OUTPUTS))))
        return false;
    if (!strstr(text, QC_COMMAND_FILE))
        return qc_fail(
            st, QC_USAGE,
            "needs a command with {} in place of the model file: --metric 'python score.py {}', or {outputs} "
            "in place of a file of its outputs; 'lower:' in front of it says that less is better");
    if (!qc_command_split(&words, &count, text, a, st) ||
        !qc_command_run(&said, words, file, may_go_on, progress, a, st))
        return false;
    *out = (struct qc_metric){.kind = QC_METRIC_OWN,
                              .name = "metric",
                              .lower_is_better = lower,
                              .value = qc_last_number(said),
                              .top5 = nan,
                              .mse = nan,
                              .low = nan,
                              .high = nan,
                              .nll = nan,
                              .seconds = qc_seconds() - start};
    return isfinite(out->value) ||
           qc_fail(st, QC_MACHINE, "the last number that the command prints is the metric, but it printed none");
}

bool qc_own_metric_of_file(struct qc_metric *out, const struct qc_options *o, const char *file,
                           struct qc_progress *progress, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    return measure(out, o, file, progress, a, st) || (st->code != QC_INTERRUPTED && qc_where(st, "--metric"));
}

/* Makes the name of a file that does not exist, in a new folder. */
static bool new_file(const char **file, const char **folder, const char *suffix, struct qc_arena *a,
                     struct qc_status *st)
{
    return qc_temporary_subfolder(folder, NULL, a, st) &&
           (*file = qc_arena_printf(a, st, "%s/model%s", *folder, suffix)) != NULL;
}

static void remove_file(const char *file, const char *folder, struct qc_arena *a)
{
    struct qc_status ignored = QC_STATUS_INIT;
    const char *weights = file ? qc_arena_printf(a, &ignored, "%s.data", file) : NULL;
    if (file) unlink(file);
    if (weights) unlink(weights);
    if (folder) rmdir(folder);
}

bool qc_own_metric_of_model(struct qc_metric *out, const struct qc_model_source *model, const struct qc_options *o,
                            struct qc_progress *progress, struct qc_status *st)
{
    const struct qc_model_at_hand *read = model->at_hand;
    const char *file = read ? read->file : model->file, *folder = NULL, *made = NULL;
    const struct qc_onnx_emit_options emit = QC_ONNX_EMIT_DEFAULTS;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    if (file) return qc_own_metric_of_file(out, o, file, progress, st);
    const bool ok = new_file(&made, &folder, ".onnx", a, st) && qc_onnx_emit_file(NULL, made, read->graph, &emit, st) &&
                    qc_own_metric_of_file(out, o, made, progress, st);
    remove_file(made, folder, a);
    return ok;
}

/* ---- Outputs ---- */

struct giving {
    const struct qc_graph *g;
    const struct qc_dataset *data;
    struct qc_writer *writer;
    size_t labels, target; /* their outputs of the writer; 0: there are none */
};

static bool give_unit(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                      struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    const struct giving *w = user;
    for (size_t k = 0; k < w->g->output_count; k++) {
        const struct qc_view v = qc_runner_output(runners[0], k);
        if (!qc_writer_put(w->writer, k, at->unit, v.data, v.dim, (unsigned)v.rank, st)) return false;
    }
    const size_t labels = qc_dataset_unit_label_count(w->data, at->unit),
                 elements = qc_dataset_unit_target_elements(w->data, at->unit), each = qc_dataset_unit_samples(w->data);
    int64_t *numbers = w->labels ? calloc(labels + 1, sizeof *numbers) : NULL;
    float *target = w->target ? calloc(elements + 1, sizeof *target) : NULL;
    bool ok = (numbers || !w->labels) && (target || !w->target);
    if (!ok) qc_fail_memory(st, labels * sizeof *numbers);
    if (ok && numbers)
        ok = qc_dataset_read_labels(numbers, w->data, at->unit, st) &&
             qc_writer_put(w->writer, w->labels, at->unit, numbers,
                           (const int64_t[]){(int64_t)each, (int64_t)(labels / each)}, labels > each ? 2 : 1, st);
    if (ok && target)
        ok = qc_dataset_read_target(target, w->data, at->unit, scratch, st) &&
             qc_writer_put(w->writer, w->target, at->unit, target,
                           (const int64_t[]){(int64_t)each, (int64_t)(elements / each)}, 2, st);
    free(numbers);
    free(target);
    return ok;
}

static bool has_output(const struct qc_graph *g, const char *name)
{
    for (size_t k = 0; k < g->output_count; k++)
        if (strcmp(g->outputs[k].name, name) == 0) return true;
    return false;
}

/* Opens the file. Outputs of the model that have the name of the truth take its place. */
static bool open_writer(struct giving *w, const char *file, struct qc_arena *a, struct qc_status *st)
{
    size_t count = w->g->output_count;
    struct qc_writer_output *list = QC_NEW_ARRAY(a, struct qc_writer_output, count + 2, st);
    if (!list) return false;
    for (size_t k = 0; k < count; k++)
        list[k] = (struct qc_writer_output){w->g->outputs[k].name, w->g->values[w->g->outputs[k].value].type.dtype};
    if (qc_dataset_label_count(w->data) && !has_output(w->g, "labels"))
        list[w->labels = count++] = (struct qc_writer_output){"labels", QC_I64};
    if (qc_dataset_target_elements(w->data) && !has_output(w->g, "target"))
        list[w->target = count++] = (struct qc_writer_output){"target", QC_F32};
    return qc_writer_open(&w->writer, file, list, count, qc_dataset_batch(w->data), false, st);
}

bool qc_own_metric_of_outputs(struct qc_metric *out, const struct qc_graph *g, const struct qc_dataset *data,
                              const struct qc_plan_options *how, const struct qc_options *o,
                              const struct qc_settings *settings, struct qc_progress *progress, struct qc_status *st)
{
    struct giving w = {.g = g, .data = data};
    struct qc_stream stream = {.data = data,
                               .input_count = g->input_count,
                               .plan_count = 1,
                               .fed = 1,
                               .in_order = true,
                               .unit = give_unit,
                               .user = &w,
                               .progress = settings->progress,
                               .progress_user = settings->progress_user};
    const char *file = NULL, *folder = NULL;
    struct qc_plan *plan = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    bool ok = new_file(&file, &folder, "s.h5", a, st) && open_writer(&w, file, a, st) &&
              qc_stream_plan(&plan, g, data, how, st);
    stream.plans[0] = plan;
    ok = ok && qc_stream_fit(&stream.workers, settings, data, qc_plan_runner_bytes(plan), st) &&
         qc_stream_run(&stream, st) && qc_writer_commit(w.writer, st);
    qc_plan_free(plan);
    qc_writer_free(w.writer);
    ok = ok && qc_own_metric_of_file(out, o, file, progress, st);
    if (ok) out->samples = qc_dataset_samples(data);
    remove_file(file, folder, a);
    return ok;
}

/* Measures the outputs of a produced graph, or a file of it in the first format. */
static bool measure_graph(struct qc_metric *out, const struct qc_network *net, const struct qc_export_source *source,
                          const struct qc_graph *lowered, struct qc_status *st)
{
    const struct qc_setup *s = net->setup;
    const struct qc_settings *settings = net->scheme.settings;
    const struct qc_exporter *e = s->exporters[0];
    const char *file = NULL, *folder = NULL;
    if (qc_own_metric_reads_outputs(s->options))
        return qc_own_metric_of_outputs(out, source->produced, s->eval, &settings->plan, s->options, settings,
                                        s->progress, st);
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const bool ok = new_file(&file, &folder, e->suffix, a, st) && qc_export_file(NULL, file, e, source, lowered, st) &&
                    qc_own_metric_of_file(out, s->options, file, s->progress, st);
    remove_file(file, folder, a);
    return ok;
}

bool qc_own_metric_of_network(struct qc_metric *out, const struct qc_network *net, struct qc_status *st)
{
    const bool outputs = qc_own_metric_reads_outputs(net->setup->options);
    const struct qc_export_source source = {.produced = outputs ? net->produced : qc_network_written(net),
                                            .expanded = net->expanded};
    return measure_graph(out, net, &source, net->lowered[0], st);
}

bool qc_own_metric_of_layers(struct qc_sensitivity *s, const struct qc_metric *real, const struct qc_network *net,
                             struct qc_status *st)
{
    const double start = qc_seconds();
    const size_t count = s->count < QC_METRIC_LAYERS ? s->count : QC_METRIC_LAYERS;
    struct qc_status own = QC_STATUS_INIT;
    const char *first = NULL;
    size_t unmeasured = 0;
    bool ok = true;
    qc_sensitivity_sort(s, QC_EFFECTS_BY_NOISE);
    qc_progress_phase(net->setup->progress, "metric of layers");
    for (size_t i = 0; ok && i < count; i++) {
        struct qc_metric m;
        /* Measure the network with one layer quantized. */
        const struct qc_graph *rounded = net->uncorrected ? net->uncorrected : net->rounded;
        struct qc_graph *bound = NULL, *produced = NULL, *lowered = NULL;
        ok = qc_sensitivity_alone(&bound, net->simulated, rounded, &s->layers[i], st) &&
             qc_network_lower_other(&produced, &lowered, net, bound, st);
        const struct qc_export_source source = {.produced = produced};
        ok = ok && measure_graph(&m, net, &source, lowered, st);
        qc_graph_free(bound);
        qc_graph_free(produced);
        qc_graph_free(lowered);
        if (!ok && st->code == QC_UNSUPPORTED) { /* a format that does not hold this layer alone in integers */
            if (!unmeasured++) first = qc_arena_strdup(net->arena, st->message, &own);
            *st = QC_STATUS_INIT;
            ok = true;
            continue;
        }
        if (!ok) break;
        s->layers[i].metric = m.value;
        s->layers[i].lost = qc_metric_drop(real, &m);
        qc_progress_step(net->setup->progress, i + 1, count);
    }
    qc_progress_end(net->setup->progress);
    if (unmeasured)
        qc_warn(net->listener->warnings, "--sensitivity: --metric does not measure %zu of %zu layers alone: %s",
                unmeasured, count, first ? first : "");
    qc_sensitivity_sort(s, QC_EFFECTS_BY_LOSS);
    s->seconds += qc_seconds() - start;
    return ok;
}
