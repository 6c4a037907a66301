// SPDX-License-Identifier: Apache-2.0
/* qcalib quantize MODEL --data CALIB.h5 */
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/scope.h"
#include "base/words.h"
#include "cli/commands/cmd.h"
#include "cli/options/command_line.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "export/formats/exporter.h"
#include "graph/text/text.h"
#include "quantize/job.h"

/* --dump PASS prints the graph after a pass to standard output; --dump PASS=FILE writes it with all constants, so
   that it parses back. */

bool qc_dump_text(char *text, const char *file, struct qc_status *st)
{
    QC_FREED char *held = text;
    if (text && file) return qc_file_write(file, text, strlen(text), st);
    if (text) fputs(text, stdout); /* write errors are reported at the end */
    return text != NULL;
}

/* pass_done of a job (quantize/job.h); user: the struct qc_cli_options. */
static bool dump_pass(void *user, enum qc_pass pass, const struct qc_graph *g, const struct qc_partition *partition,
                      struct qc_status *st)
{
    const struct qc_cli_options *o = user;
    const char *name = qc_pass_name(pass);
    const size_t length = strlen(name);
    for (size_t i = 0; i < o->dump.count; i++) {
        const char *wish = o->dump.items[i];
        if (strncmp(wish, name, length) != 0 || (wish[length] && wish[length] != '=')) continue;
        const bool to_file = wish[length] == '=';
        const struct qc_text_options all = QC_TEXT_ALL, some = QC_TEXT_SHORT;
        char *text = g ? qc_graph_print(g, to_file ? &all : &some, st) : qc_partition_print(partition, st);
        if (!qc_dump_text(text, to_file ? wish + length + 1 : NULL, st)) return false;
    }
    return true;
}

bool qc_dump_beside_json(const struct qc_cli_options *o, struct qc_status *st)
{
    for (size_t i = 0; o->json && i < o->dump.count; i++)
        if (!strchr(o->dump.items[i], '='))
            return qc_fail(st, QC_USAGE,
                           "--dump %.64s prints a graph, and --json prints one JSON object alone; write the graph to a "
                           "file: --dump %.64s=FILE",
                           o->dump.items[i], o->dump.items[i]);
    return true;
}

/* The same, and fails (QC_USAGE) if a pass does not exist. */
static bool dump_check(const struct qc_cli_options *o, struct qc_status *st)
{
    const char *names[QC_PASS_COUNT];
    const size_t count = QC_PASS_COUNT;
    for (int p = 0; p < QC_PASS_COUNT; p++) names[p] = qc_pass_name((enum qc_pass)p);
    for (size_t i = 0; i < o->dump.count; i++) {
        char name[64];
        const char *end = strchr(o->dump.items[i], '=');
        qc_text(name, sizeof name, "%.*s", end ? (int)(end - o->dump.items[i]) : 63, o->dump.items[i]);
        bool known = false;
        for (size_t k = 0; k < count; k++) known = known || strcmp(names[k], name) == 0;
        if (known) continue;
        return qc_fail(st, QC_USAGE, "--dump %s: there is no such pass%s; see 'qcalib list passes'", name,
                       QC_MEANT("", qc_closest(name, names, count)));
    }
    return qc_dump_beside_json(o, st);
}

/* Paths of the output files. */
struct outputs {
    size_t count;
    const char **models;   /* [count]: one per format */
    const char *folder;    /* of the report, or NULL */
    const char *placement; /* the placement chosen by --benchmark; NULL: not requested */
};

static bool name_outputs(struct outputs *out, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_arena *a = o->job.arena;
    const char *stem = qc_stem(a, o->operands.items[0], st);
    const char *label = qc_weight_type_word(a, o->job.types.weights.items[0], st);
    const size_t n = out->count = o->job.graph.formats.count;
    if (!stem || !label || !(out->models = QC_NEW_ARRAY(a, const char *, n, st))) return false;
    if (o->output && n > 1)
        return qc_fail(st, QC_USAGE, "-o names one file, but --format asks for %zu; leave one of them out", n);
    for (size_t i = 0; i < n; i++) {
        const struct qc_exporter *e = qc_exporter_find(o->job.graph.formats.items[i]); /* the option's choices are
                                                                                    exporters */
        if (!(out->models[i] = o->output ? o->output : qc_exported_name(a, stem, label, e, st))) return false;
    }
    if (o->job.demand.benchmark && !(out->placement = qc_placement_file(a, out->models[0], st))) return false;
    if (o->report && !*o->report) return true;
    const char *base = o->output ? qc_stem(a, o->output, st) : NULL;
    const char *slash = o->output ? strrchr(o->output, '/') : NULL;
    if (o->report)
        out->folder = o->report;
    else if (base)
        out->folder =
            qc_arena_printf(a, st, "%.*s%s.report", slash ? (int)(slash - o->output) + 1 : 0, o->output, base);
    else
        out->folder = qc_arena_printf(a, st, "%s.%s.report", stem, label);
    return out->folder != NULL;
}

/* Adds the models that were written to the error message. */
static bool tell_written(const struct outputs *to, size_t count, struct qc_status *st)
{
    char names[400] = "";
    size_t at = 0;
    for (size_t i = 0; i < count && at < sizeof names; i++)
        at += (size_t)snprintf(names + at, sizeof names - at, "%s%s", i ? ", " : "", to->models[i]);
    return count ? qc_where(st, "%s %s written, the rest is not", names, count == 1 ? "is" : "are") : false;
}

/* Writes the model files first, so that a report never names files that do not exist. */
static bool write_files(struct qc_job *j, const struct outputs *to, const struct qc_cli_options *o,
                        struct qc_status *st)
{
    struct qc_status demand = QC_STATUS_INIT;
    bool models;
    const bool met = qc_job_check_demand(&models, j, &demand);
    const char *folder = to->folder;
    struct qc_json *json = NULL;
    if (!qc_interrupt_check(st)) return false;
    for (size_t i = 0; models && i < to->count; i++)
        if (!qc_job_write(j, i, to->models[i], st)) return tell_written(to, i, st);
    if (!qc_job_record(&json, j, st)) return false;
    /* A configuration for the next job, unless nothing is quantized, which no job would accept. */
    const struct qc_json *latency = qc_json_find(json, "timing.benchmark"),
                         *placement = models ? qc_json_find(latency, "placement") : NULL;
    QC_FREED char *text = placement ? qc_json_print(placement, 2) : NULL;
    bool ok = !placement || (text ? qc_file_write(to->placement, text, strlen(text), st) : qc_fail_memory(st, 1));
    ok = ok && (!folder || qc_job_write_report(j, json, folder, st));
    if (!ok) tell_written(to, models ? to->count : 0, st);
    if (ok && !o->quiet && !o->json && (ok = qc_print_summary(json, folder != NULL, st))) {
        if (folder) qc_say("report      %s\n", folder);
        if (latency && !(qc_json_find_number(latency, "all_float") > 0)) qc_say("placement   %s\n", to->placement);
    }
    if (ok && o->json)
        ok = qc_print_json(json, st);
    else
        qc_json_free(json);
    if (ok && !met) *st = demand;
    return ok && met;
}

/* Names the given output files for commands that the report proposes. Temporary files go into the folder of the output,
   which needs free space in any case. */
static bool name_outputs_of_job(struct qc_job_inputs *in, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_arena *a = o->job.arena;
    struct qc_text_list words = {.count = 0};
    const char *slash = o->output ? strrchr(o->output, '/') : NULL;
    if (slash && !(in->scratch = qc_arena_strndup(a, o->output, (size_t)(slash - o->output) + 1, st))) return false;
    const char *output = o->output ? qc_arena_printf(a, st, "--output=%s", o->output) : NULL,
               *report = !o->report    ? NULL
                         : !*o->report ? "--no-report"
                                       : qc_arena_printf(a, st, "--report=%s", o->report);
    if ((o->output && !output) || (o->report && !report) || (output && !qc_text_list_add(&words, output, a, st)) ||
        (report && !qc_text_list_add(&words, report, a, st)))
        return false;
    in->words = words.items;
    in->word_count = words.count;
    return true;
}

bool qc_cmd_quantize(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_job_inputs in = qc_job_inputs_of(&o->job, o->operands.items[0]);
    struct qc_job_listener listener = {.pass_done = dump_pass, .user = (void *)(uintptr_t)o};
    struct qc_progress *bar = NULL;
    struct qc_job *j = NULL;
    struct outputs to = {0};
    struct qc_file_list outputs = {0};
    in.team = o->team;
    bool ok = dump_check(o, st) && name_outputs_of_job(&in, o, st) && qc_progress_bar_new(&bar, o, st) &&
              name_outputs(&to, o, st) && qc_outputs_apart(&outputs, to.models, to.count, to.folder, o, st);
    listener.progress = bar;
    in.model.outputs = outputs.items;
    in.model.output_count = outputs.count;
    ok = ok && qc_job_new(&j, &o->job, &in, &listener, st);
    /* Check before the work begins that the files and the report's folder can be created and written. */
    for (size_t i = 0; ok && i < to.count; i++) ok = qc_output_check(to.models[i], st);
    ok = ok && (!to.placement || qc_output_check(to.placement, st));
    if (ok && to.folder) {
        struct stat s;
        const char *file =
            stat(to.folder, &s) != 0 ? to.folder : qc_arena_printf(o->job.arena, st, "%s/report.json", to.folder);
        ok = file && qc_output_check(file, st);
    }
    ok = ok && qc_job_run(j, st) && write_files(j, &to, o, st);
    if (ok) qc_job_done(j);
    if (j) qc_warnings_print(qc_job_warnings(j), o);
    qc_job_free(j);
    qc_progress_bar_free(bar);
    return ok;
}
