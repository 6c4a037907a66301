// SPDX-License-Identifier: Apache-2.0
/* qcalib compare-reports A B [-o PAGE.html]: two reports of one model. */
#include <math.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/scope.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "evaluate/evaluate.h"
#include "export/report/report.h"
#include "quantize/report/command_text.h"

enum { SHOWN = 8 };

/* A folder means its report.json. */
static bool find_reports(const char **out, const char *path, struct qc_arena *a, struct qc_status *st)
{
    struct stat about;
    *out = path;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) *out = qc_arena_printf(a, st, "%s/report.json", path);
    return *out != NULL;
}

static bool write_difference_page(const struct qc_json *d, const struct qc_report_source from[2],
                                  const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_text_list words = {.count = 0};
    struct qc_arena *a = o->job.arena;
    const char *command;
    size_t size;
    if (!qc_text_list_add(&words, "qcalib", a, st) || !qc_text_list_add(&words, "compare-reports", a, st) ||
        !qc_text_list_add(&words, from[0].file, a, st) || !qc_text_list_add(&words, from[1].file, a, st) ||
        !qc_text_list_add(&words, "-o", a, st) || !qc_text_list_add(&words, o->output, a, st) ||
        !qc_words_text(&command, a, &words, st))
        return false;
    struct qc_json *record = qc_json_copy(d);
    qc_report_difference_record(record, from, command, QC_VERSION);
    QC_FREED char *text = qc_json_is_whole(record) ? qc_page(&size, record, st) : NULL;
    qc_json_free(record);
    if (!text) return qc_fail_memory(st, 1);
    return qc_file_write(o->output, text, size, st);
}

static bool print_difference(const struct qc_json *d, const struct qc_cli_options *o, struct qc_status *st)
{
    const struct qc_json *reports = qc_json_find(d, "reports"), *notes = qc_json_find(d, "notes");
    for (size_t k = 0; k < 2; k++)
        qc_say("%s%s (qcalib %s)\n", k ? "            " : "reports     ",
               qc_json_find_text(qc_json_at(reports, k), "file"), qc_json_find_text(qc_json_at(reports, k), "version"));
    for (size_t i = 0; i < qc_json_size(notes); i++)
        qc_say("%s%s\n", i ? "            " : "note        ", qc_json_text(qc_json_at(notes, i)));
    const struct qc_json *figures = qc_json_find(d, "figures");
    char first[QC_CHANGE_TEXT], second[QC_CHANGE_TEXT], change[QC_CHANGE_TEXT];
    for (size_t i = 0; i < qc_json_size(figures); i++) {
        const struct qc_json *f = qc_json_at(figures, i);
        qc_say("%s%s: %s -> %s (%s)\n", i ? "            " : "figures     ", qc_json_find_text(f, "name"),
               qc_figure_text(first, f, 0), qc_figure_text(second, f, 1), qc_figure_change(change, f, "-"));
    }
    const struct qc_json *options = qc_json_find(d, "options");
    if (!qc_json_size(options)) qc_say("options     all are the same\n");
    for (size_t i = 0; i < qc_json_size(options); i++) {
        const struct qc_json *p = qc_json_at(options, i), *values = qc_json_find(p, "values");
        QC_FREED char *of_first = qc_json_print(qc_json_at(values, 0), 0),
                      *of_second = qc_json_print(qc_json_at(values, 1), 0);
        if (!of_first || !of_second) return qc_fail_memory(st, 1);
        qc_say("%s--%s: %s -> %s\n", i ? "            " : "options     ", qc_json_find_text(p, "name"),
               strcmp(of_first, "null") == 0 ? "none" : of_first, strcmp(of_second, "null") == 0 ? "none" : of_second);
    }
    const struct qc_json *layers = qc_json_find(d, "layers");
    const size_t count = qc_json_size(layers), shown = o->verbose || count < SHOWN ? count : SHOWN;
    qc_say("layers      %zu of %.0f differ%s\n", count, qc_json_find_number(d, "layers_in_both"),
           count ? "; the largest change of noise first" : "");
    for (size_t i = 0; i < shown; i++) {
        const struct qc_json *l = qc_json_at(layers, i);
        const char *what = qc_layer_change(o->job.arena, l, st);
        const double by = qc_json_find_number(l, "change_db");
        if (!what) return false;
        if (isnan(by))
            qc_say("            not measured  ");
        else
            qc_say("            %+.2f dB  ", by);
        qc_say("%s  %s: %s\n", qc_json_find_text(l, "op"), qc_json_find_text(l, "name"), what);
    }
    if (shown < count) qc_say("            and %zu more (-v shows all)\n", count - shown);
    for (int k = 0; k < 2; k++) {
        const size_t single = qc_json_size(qc_json_find(d, k ? "only_in_second" : "only_in_first"));
        if (single) qc_say("            %zu quantized in the %s report only\n", single, k ? "second" : "first");
    }
    if (o->output) qc_say("written     %s\n", o->output);
    return true;
}

bool qc_cmd_compare_reports(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_cli_options found = *o; /* folders are replaced by their report.json */
    struct qc_report_source from[2] = {{.file = NULL}};
    struct qc_json *read[2] = {NULL, NULL};
    struct qc_json *d = NULL;
    struct qc_file_list outputs;
    const char *files[2];
    bool ok = find_reports(&files[0], o->operands.items[0], o->job.arena, st) &&
              find_reports(&files[1], o->operands.items[1], o->job.arena, st);
    found.operands.items = files;
    ok = ok && (!o->output ||
                (qc_outputs_apart(&outputs, &o->output, 1, NULL, &found, st) && qc_output_check(o->output, st)));
    for (int k = 0; ok && k < 2; k++) {
        ok = qc_report_read(&read[k], files[k], o->job.arena, st);
        from[k] = (struct qc_report_source){.file = files[k], .report = read[k]};
    }
    ok = ok && qc_report_difference(&d, from, o->job.arena, st);
    ok = ok && (!o->output || write_difference_page(d, from, o, st));
    if (ok && o->json) {
        ok = qc_print_json(d, st);
        d = NULL; /* taken */
    } else if (ok && !o->quiet)
        ok = print_difference(d, o, st);
    qc_json_free(d);
    for (int k = 0; k < 2; k++) qc_json_free(read[k]);
    return ok;
}
