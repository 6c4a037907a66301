// SPDX-License-Identifier: Apache-2.0
/* qcalib pack FOLDER|FILE... -o DATA.h5: packs images or arrays into a data file. */
#include <sys/stat.h>

#include "base/file.h"
#include "calib/statistics/stream.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "datasets/stream/data_writer.h"
#include "quantize/setup/model.h"

static bool report_packed(size_t rows, const struct qc_cli_options *o, const struct qc_warnings *w,
                          struct qc_status *st)
{
    struct qc_data_list list;
    struct stat about;
    if (!qc_data_list(&list, o->output, QC_FOLLOW_NOTHING, o->job.arena, st)) return false;
    if (o->json) {
        struct qc_json *all = qc_json_object(), *sets = qc_json_array();
        for (size_t i = 0; i < list.count; i++) qc_json_add(sets, qc_json_string(list.entries[i].name));
        qc_json_put(all, "file %s samples %zu", o->output, rows);
        qc_json_set(all, "datasets", sets);
        qc_json_set(all, "warnings", qc_warnings_json(w));
        return qc_print_json(all, st);
    }
    if (o->quiet) return true;
    for (size_t i = 0; i < list.count; i++) {
        const struct qc_data_entry *e = &list.entries[i];
        qc_say(i ? "         %s %s [" : "packed   %s %s [", e->name, e->type);
        for (unsigned d = 0; d < e->rank; d++)
            e->dims[d] < 0 ? qc_say("%s?", d ? "," : "") : qc_say("%s%lld", d ? "," : "", (long long)e->dims[d]);
        qc_say("]\n");
    }
    qc_say("wrote    %s (%s)\n", o->output, QC_BYTES(stat(o->output, &about) == 0 ? (size_t)about.st_size : 0));
    return true;
}

bool qc_cmd_pack(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_progress *bar = NULL;
    struct qc_warnings *w = NULL;
    struct qc_file_list outputs;
    struct qc_dataset_options options = QC_DATASET_OPTIONS_INIT;
    struct qc_data_shaping shaping;
    struct qc_model model = {.path = NULL};
    struct qc_pack what = {.paths = o->operands.items,
                           .count = o->operands.count,
                           .options = &options,
                           .progress = qc_progress_step};
    size_t rows = 0;
    if (!o->output) return qc_fail(st, QC_USAGE, "pack needs -o FILE for the result; see 'qcalib help pack'");
    bool ok = qc_outputs_apart(&outputs, &o->output, 1, NULL, o, st) && qc_output_check(o->output, st) &&
              qc_warnings_new(&w, st) && qc_progress_bar_new(&bar, o, st) &&
              qc_model_data_options(&options, &shaping, &o->job, w, o->job.arena, st);
    what.progress_user = bar;
    options.labels = o->labels;
    if (ok && o->model) { /* only its inputs are packed */
        ok = qc_model_open(&model, &(struct qc_model_source){.file = o->model}, &o->job, w, st) &&
             (what.inputs = qc_stream_specs(model.graph, o->job.arena, st));
        if (ok) what.input_count = model.graph->input_count;
    }
    if (ok) {
        qc_progress_phase(bar, "packing");
        ok = qc_pack_write(&rows, o->output, &what, st);
        qc_progress_end(bar);
    }
    qc_model_close(&model);
    ok = ok && report_packed(rows, o, w, st);
    qc_warnings_print(w, o);
    qc_warnings_free(w);
    qc_progress_bar_free(bar);
    return ok;
}
