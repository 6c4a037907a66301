// SPDX-License-Identifier: Apache-2.0
/* qcalib collect MODEL --data PART.h5 -o PART.stats.h5 */
#include <sys/stat.h>

#include "base/file.h"
#include "calib/statistics/statistics.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "quantize/job.h"

bool qc_cmd_collect(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_job_inputs in = {.model = {.file = o->operands.items[0]},
                               .data = {.file = o->job.data.file},
                               .team = o->team};
    struct qc_job_listener listener = {0};
    struct qc_progress *bar = NULL;
    struct qc_job *j = NULL;
    struct qc_collect_result r = {.statistics = NULL};
    struct qc_file_list outputs = {0};
    const char *path = o->output;
    bool ok = qc_progress_bar_new(&bar, o, st);
    listener.progress = bar;
    if (ok && !path) {
        const char *stem = qc_stem(o->job.arena, o->operands.items[0], st);
        ok = stem && (path = qc_arena_printf(o->job.arena, st, "%s.stats.h5", stem));
    }
    ok = ok && qc_outputs_apart(&outputs, &path, 1, NULL, o, st);
    in.model.outputs = outputs.items;
    in.model.output_count = outputs.count;
    ok = ok && qc_job_new(&j, &o->job, &in, &listener, st) && qc_output_check(path, st) && qc_job_collect(&r, j, st) &&
         qc_statistics_save(path, r.statistics, st);
    if (ok) qc_job_done(j);
    if (ok) {
        const struct qc_dataset *of = qc_job_setup(j)->data;
        const size_t samples = (size_t)qc_collection_samples(r.statistics);
        struct stat s;
        if (o->json) {
            struct qc_json *all = qc_json_object();
            qc_json_set(all, "model", qc_json_string(o->operands.items[0]));
            qc_json_set(all, "data",
                        QC_JSON("file %s samples %zu samples_in_file %zu", qc_dataset_file(of), samples,
                                qc_dataset_total(of)));
            qc_json_put(all, "tensors %zu file %s", r.tensors, path);
            qc_json_set(all, "warnings", qc_warnings_json(qc_job_warnings(j)));
            qc_json_put(all, "threads %u seconds %g", r.workers, r.seconds);
            ok = qc_print_json(all, st);
        } else if (!o->quiet) {
            qc_say("model    %s\n", o->operands.items[0]);
            qc_say("data     %s: %zu of %zu samples\n", qc_dataset_file(of), samples, qc_dataset_total(of));
            qc_say("seen     %s tensors\n", QC_COUNT(r.tensors));
            qc_say("time     %.2f s, %u thread%s\n", r.seconds, r.workers, qc_plural(r.workers));
            qc_say("wrote    %s (%s)\n", path, QC_BYTES(stat(path, &s) == 0 ? (size_t)s.st_size : 0));
        }
    }
    if (j) qc_warnings_print(qc_job_warnings(j), o);
    qc_collection_free(r.statistics);
    qc_job_free(j);
    qc_progress_bar_free(bar);
    return ok;
}
