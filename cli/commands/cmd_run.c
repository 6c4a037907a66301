// SPDX-License-Identifier: Apache-2.0
/* qcalib run MODEL --data IN.h5 -o OUT.h5 */

#include "base/clock.h"
#include "base/file.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "datasets/stream/data_writer.h"
#include "evaluate/evaluate.h"
#include "quantize/options/option_value.h"

struct job {
    const struct qc_cli_options *o;
    struct qc_arena *arena;
    struct qc_warnings *warnings;
    struct qc_progress *progress;
    struct qc_model_run run;
    struct qc_settings settings;
    struct qc_writer *writer;
    enum qc_dtype *types; /* of the outputs */
};

static bool store_output(void *user, const struct qc_unit *at, struct qc_runner *const runners[],
                         struct qc_dataset_scratch *scratch, struct qc_status *st)
{
    struct job *j = user;
    (void)scratch;
    for (size_t k = 0; k < j->run.model.graph->output_count; k++) {
        struct qc_view v = qc_runner_output(runners[0], k);
        if (!qc_writer_put(j->writer, k, at->unit, v.data, v.dim, (unsigned)v.rank, st)) return false;
        if (at->unit == 0) j->types[k] = v.dtype;
    }
    return true;
}

/* Runs all samples and writes their outputs. */
static bool stream(struct job *j, struct qc_status *st)
{
    const struct qc_graph *g = j->run.model.graph;
    if (!qc_model_run_plan(&j->run, &j->settings, j->arena, st)) return false;
    struct qc_writer_output *outputs = QC_NEW_ARRAY(j->arena, struct qc_writer_output, g->output_count, st);
    j->types = QC_NEW_ARRAY(j->arena, enum qc_dtype, g->output_count, st);
    if (!outputs || !j->types) return false;
    for (size_t k = 0; k < g->output_count; k++) {
        outputs[k].name = g->outputs[k].name;
        outputs[k].dtype = qc_value(g, g->outputs[k].value)->type.dtype;
    }
    return qc_writer_open(&j->writer, j->o->output, outputs, g->output_count, qc_dataset_batch(j->run.data),
                          j->o->compress, st) &&
           qc_model_run_units(&j->run, store_output, j, j->settings.plan.accumulator.bits, j->progress, j->warnings,
                              st) &&
           qc_writer_commit(j->writer, st);
}

static bool print_run_json(const struct job *j, struct qc_status *st)
{
    struct qc_json *all = qc_json_object(), *data = qc_json_object(), *outputs = qc_json_array();
    const struct qc_graph *g = j->run.model.graph;
    qc_json_put(data, "file %s samples %zu dropped %zu", qc_dataset_file(j->run.data), qc_dataset_samples(j->run.data),
                qc_dataset_dropped(j->run.data));
    for (size_t k = 0; k < g->output_count; k++) {
        struct qc_json *one = qc_json_object(), *dims = qc_json_array();
        const struct qc_shape s = qc_writer_shape(j->writer, k);
        for (int i = 0; i < s.rank; i++) qc_json_add(dims, s.dim[i] < 0 ? qc_json_null() : qc_json_integer(s.dim[i]));
        qc_json_put(one, "name %s dataset %s type %s", g->outputs[k].name, qc_writer_path(j->writer, k),
                    qc_dtype_info(j->types[k])->name);
        qc_json_set(one, "shape", dims);
        qc_json_add(outputs, one);
    }
    qc_json_set(all, "model", qc_json_string(j->run.model.path));
    qc_json_set(all, "data", data);
    qc_json_set(all, "outputs", outputs);
    qc_json_set(all, "file", qc_json_string(j->o->output));
    if (j->o->job.types.accumulator) qc_json_set(all, "overflows", qc_overflows_json(&j->run.overflows));
    qc_json_set(all, "warnings", qc_warnings_json(j->warnings));
    qc_json_put(all, "threads %u seconds %g", j->run.workers, j->run.seconds);
    return qc_print_json(all, st);
}

bool qc_cmd_run(const struct qc_cli_options *o, struct qc_status *st)
{
    struct job j = {.o = o, .arena = o->job.arena};
    struct qc_file_list outputs = {0};
    if (!o->job.data.file) return qc_fail(st, QC_USAGE, "run needs --data FILE; see 'qcalib help run'");
    if (!o->output) return qc_fail(st, QC_USAGE, "run needs -o FILE for the results; see 'qcalib help run'");
    bool ok = qc_settings_of(&j.settings, &o->job, NULL, st) &&
              qc_outputs_apart(&outputs, &o->output, 1, NULL, o, st) && qc_output_check(o->output, st) &&
              qc_warnings_new(&j.warnings, st) && qc_progress_bar_new(&j.progress, o, st);
    const struct qc_model_source model = {.file = o->operands.items[0],
                                          .outputs = outputs.items,
                                          .output_count = outputs.count};
    ok = ok &&
         qc_model_run_open(&j.run, &model, &(struct qc_data_source){.file = o->job.data.file}, QC_USE_INPUTS, &o->job,
                           j.warnings, st) &&
         stream(&j, st);
    const bool ran = ok;
    if (ok && o->json)
        ok = print_run_json(&j, st);
    else if (ok && !o->quiet) {
        enum { LISTED = 8 };
        const struct qc_graph *g = j.run.model.graph;
        size_t samples = qc_dataset_samples(j.run.data);
        qc_say("model    %s\n", j.run.model.path);
        qc_say("data     %s, %s samples\n", qc_dataset_file(j.run.data), QC_COUNT(samples));
        for (size_t k = 0; k < g->output_count && (k < LISTED || j.o->verbose); k++) {
            const struct qc_shape s = qc_writer_shape(j.writer, k);
            qc_say("output   %s %s %s\n", g->outputs[k].name, qc_dtype_info(j.types[k])->name, QC_SHAPE_STR(&s));
        }
        if (g->output_count > LISTED && !j.o->verbose)
            qc_say("         and %zu more outputs; -v lists them\n", g->output_count - LISTED);
        qc_say("time     %.2f s, %.0f samples/s, %u thread%s\n", j.run.seconds,
               (double)samples / (j.run.seconds > 0 ? j.run.seconds : 1e-9), j.run.workers, qc_plural(j.run.workers));
        qc_say("wrote    %s\n", j.o->output);
    }
    if (ran) qc_warnings_print(j.warnings, o);
    qc_writer_free(j.writer);
    qc_model_run_close(&j.run);
    qc_progress_bar_free(j.progress);
    qc_warnings_free(j.warnings);
    return ok;
}
