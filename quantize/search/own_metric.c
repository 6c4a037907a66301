// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/own_metric.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/command.h"
#include "base/file_map.h"
#include "export/formats/exporter.h"
#include "onnx/write/emit.h"

static const char LOWER[] = "lower:", HIGHER[] = "higher:";

static bool may_go_on(void *user, struct qc_status *st)
{
    return qc_progress_check(user, st);
}

static bool measure(struct qc_metric *out, const struct qc_options *o, const char *file, struct qc_progress *progress,
                    struct qc_arena *a, struct qc_status *st)
{
    const bool lower = strncmp(o->metric, LOWER, strlen(LOWER)) == 0,
               higher = strncmp(o->metric, HIGHER, strlen(HIGHER)) == 0;
    const char *text = o->metric + (lower ? strlen(LOWER) : higher ? strlen(HIGHER) : 0), *said, **words;
    const double nan = (double)NAN, start = qc_seconds();
    size_t count;
    if (!strstr(text, QC_COMMAND_FILE))
        return qc_fail(st, QC_USAGE,
                       "needs a command with {} in place of the model file: --metric 'python score.py {}'; 'lower:' in "
                       "front of it says that less is better");
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
    char *made = qc_arena_printf(a, st, "%s/qcalib-XXXXXX", qc_temporary_folder(NULL));
    if (!made) return false;
    if (!mkdtemp(made)) return qc_fail(st, QC_MACHINE, "a folder cannot be made as %s; set TMPDIR", made);
    *folder = made;
    return (*file = qc_arena_printf(a, st, "%s/model%s", made, suffix)) != NULL;
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

bool qc_own_metric_of_network(struct qc_metric *out, const struct qc_network *net, struct qc_status *st)
{
    const struct qc_exporter *e = net->setup->exporters[0];
    const struct qc_export_source source = {.produced = qc_network_written(net), .expanded = net->expanded};
    const char *file = NULL, *folder = NULL;
    QC_ARENA_SCOPE *a = qc_arena_new();
    if (!a) return qc_fail_memory(st, 1);
    const bool ok = new_file(&file, &folder, e->suffix, a, st) &&
                    qc_export_file(NULL, file, e, &source, net->lowered[0], st) &&
                    qc_own_metric_of_file(out, net->setup->options, file, net->setup->progress, st);
    remove_file(file, folder, a);
    return ok;
}
