// SPDX-License-Identifier: Apache-2.0
/* qcalib collect MODEL --data PART.h5 -o PART.stats.h5 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "calib/collect_channels.h"
#include "calib/statistics.h"
#include "cli/cmd.h"
#include "quantize/collecting.h"
#include "quantize/pipeline.h"
#include "cli/screen.h"
#include "rewrite/observable.h"

struct job {
    struct qc_pipeline p;
    const char *path;
    size_t count;
    struct qc_collect_cost cost;
    double seconds;
};

static bool collect(struct job *j, struct qc_status *st)
{
    struct qc_pipeline *p = &j->p;
    qc_id *values;
    const char **names;
    const int *axes = NULL;
    double t0 = qc_seconds();
    if (!qc_observable_values(&j->count, &values, p->normalised, p->rules, p->arena, st) || !(names = QC_NEW_ARRAY(p->arena, const char *, j->count, st))) return false;
    for (size_t i = 0; i < j->count; i++) names[i] = p->normalised->values[values[i]].name;
    if (strcmp(p->options->channel_statistics, "on") == 0 && !qc_named_channel_axes(&axes, j->count, names, p->normalised, p->arena, st)) return false;
    qc_progress_phase(p->progress, "collecting");
    bool ok = qc_collecting_run(&p->seen, &j->cost, p->normalised, j->count, values, names, axes, p->data, NULL, p->options, p->progress, st);
    qc_progress_end(p->progress);
    j->seconds = qc_seconds() - t0;
    return ok;
}

static bool report(const struct job *j, struct qc_status *st)
{
    const struct qc_cli_options *o = j->p.options;
    struct stat s;
    size_t samples = (size_t)qc_collection_samples(j->p.seen), bytes = stat(j->path, &s) == 0 ? (size_t)s.st_size : 0;
    char size[QC_NUMBER_TEXT], number[QC_NUMBER_TEXT];
    if (o->json) {
        struct qc_json *all = qc_json_object(), *data = qc_json_object(), *warnings = qc_json_array();
        qc_json_set(data, "file", qc_json_string(qc_dataset_file(j->p.data)));
        qc_json_set(data, "samples", qc_json_integer((int64_t)samples));
        qc_json_set(data, "samples_in_file", qc_json_integer((int64_t)qc_dataset_total(j->p.data)));
        for (size_t i = 0; i < qc_warnings_count(j->p.warnings); i++) qc_json_add(warnings, qc_json_string(qc_warnings_text(j->p.warnings, i)));
        qc_json_set(all, "model", qc_json_string(o->operands.items[0]));
        qc_json_set(all, "data", data);
        qc_json_set(all, "tensors", qc_json_integer((int64_t)j->count));
        qc_json_set(all, "file", qc_json_string(j->path));
        qc_json_set(all, "warnings", warnings);
        qc_json_set(all, "threads", qc_json_integer(j->cost.workers));
        qc_json_set(all, "seconds", qc_json_number(j->seconds));
        return qc_print_json(all, st);
    }
    if (o->quiet) return true;
    printf("model    %s\n", o->operands.items[0]);
    printf("data     %s: %zu of %zu samples\n", qc_dataset_file(j->p.data), samples, qc_dataset_total(j->p.data));
    printf("seen     %s tensors\n", qc_count_text(number, j->count));
    printf("time     %.2f s, %u thread%s\n", j->seconds, j->cost.workers, j->cost.workers == 1 ? "" : "s");
    printf("wrote    %s (%s)\n", j->path, qc_bytes_text(size, bytes));
    return true;
}

bool qc_cmd_collect(const struct qc_cli_options *o, struct qc_status *st)
{
    struct job j = {0};
    struct qc_pipeline *p = &j.p;
    if (!o->data) return qc_fail(st, QC_USAGE, "collect needs --data FILE: an HDF5 file with samples of what the model is used on");
    const char *stem = qc_stem(o->arena, o->operands.items[0], st);
    if (!stem || !(j.path = o->output ? o->output : qc_arena_printf(o->arena, st, "%s.stats.h5", stem)) || !qc_output_check(j.path, st)) return false;
    bool ok = qc_pipeline_normalise(p, o, st) && collect(&j, st) && qc_statistics_save(j.path, p->seen, st);
    if (ok) qc_collecting_end(o);
    ok = ok && report(&j, st);
    if (p->warnings && !o->quiet) qc_warnings_print(p->warnings, o->verbose ? QC_WARNINGS_ALL : QC_WARNINGS_SOME);
    qc_pipeline_end(p);
    return ok;
}
