// SPDX-License-Identifier: Apache-2.0
/* qcalib compare-reports A B [-o PAGE.html]: two reports of one model. */
#include <math.h>
#include <stdio.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/scope.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "evaluate/describe.h"
#include "export/report/page.h"
#include "export/report/report_difference.h"
#include "quantize/report/command_text.h"

enum { SHOWN = 8 };

/* A folder means its report.json. */
static bool find(const char **out, const char *path, struct qc_arena *a, struct qc_status *st)
{
    struct stat about;
    *out = path;
    if (stat(path, &about) == 0 && S_ISDIR(about.st_mode)) *out = qc_arena_printf(a, st, "%s/report.json", path);
    return *out != NULL;
}

static bool write_difference_page(const struct qc_report_difference *d, const struct qc_cli_options *o,
                                  struct qc_status *st)
{
    struct qc_text_list words = {.count = 0};
    struct qc_arena *a = o->job.arena;
    const char *command;
    size_t size;
    if (!qc_text_list_add(&words, "qcalib", a, st) || !qc_text_list_add(&words, "compare-reports", a, st) ||
        !qc_text_list_add(&words, d->from[0].file, a, st) || !qc_text_list_add(&words, d->from[1].file, a, st) ||
        !qc_text_list_add(&words, "-o", a, st) || !qc_text_list_add(&words, o->output, a, st) ||
        !qc_words_text(&command, a, &words, st))
        return false;
    struct qc_json *record = qc_report_difference_record(d, command, QC_VERSION);
    QC_FREED char *text = qc_json_is_whole(record) ? qc_page(&size, record, st) : NULL;
    qc_json_free(record);
    if (!text) return qc_fail_memory(st, 1);
    return qc_file_write(o->output, text, size, st);
}

static void print_figures(const struct qc_report_difference *d)
{
    char first[QC_CHANGE_TEXT], second[QC_CHANGE_TEXT], change[QC_CHANGE_TEXT];
    for (size_t i = 0; i < d->figure_count; i++) {
        const struct qc_figure *f = &d->figures[i];
        qc_say("%s%s: %s -> %s (%s)\n", i ? "            " : "figures     ", f->name,
               qc_figure_text(first, f->unit, f->value[0]), qc_figure_text(second, f->unit, f->value[1]),
               qc_figure_change(change, f, "-"));
    }
}

static bool print_layers(const struct qc_report_difference *d, const struct qc_cli_options *o, struct qc_status *st)
{
    const size_t shown = o->verbose || d->differing_count < SHOWN ? d->differing_count : SHOWN;
    qc_say("layers      %zu of %zu differ%s\n", d->differing_count, d->layer_count,
           d->differing_count ? "; the largest change of SQNR first" : "");
    for (size_t i = 0; i < shown; i++) {
        const struct qc_differing_layer *l = &d->differing[i];
        const char *what = qc_layer_change(o->job.arena, l, " -> ", st);
        if (!what) return false;
        if (isnan(l->db[1] - l->db[0]))
            qc_say("            not measured  ");
        else
            qc_say("            %+.2f dB  ", l->db[1] - l->db[0]);
        qc_say("%s  %s: %s\n", l->op, l->name, what);
    }
    if (shown < d->differing_count) qc_say("            and %zu more (-v shows all)\n", d->differing_count - shown);
    for (int k = 0; k < 2; k++)
        if (d->single_count[k])
            qc_say("            %zu quantized in the %s report only\n", d->single_count[k], k ? "second" : "first");
    return true;
}

static bool print_difference(const struct qc_report_difference *d, const struct qc_cli_options *o, struct qc_status *st)
{
    for (int k = 0; k < 2; k++)
        qc_say("%s%s (qcalib %s)\n", k ? "            " : "reports     ", d->from[k].file, d->version[k]);
    for (size_t i = 0; i < d->note_count; i++) qc_say("%s%s\n", i ? "            " : "note        ", d->notes[i]);
    print_figures(d);
    if (!d->option_count) qc_say("options     all are the same\n");
    for (size_t i = 0; i < d->option_count; i++) {
        const struct qc_differing_option *p = &d->options[i];
        qc_say("%s--%s: %s -> %s\n", i ? "            " : "options     ", p->name, *p->value[0] ? p->value[0] : "none",
               *p->value[1] ? p->value[1] : "none");
    }
    if (!print_layers(d, o, st)) return false;
    if (o->output) qc_say("written     %s\n", o->output);
    return true;
}

bool qc_cmd_compare_reports(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_cli_options found = *o; /* folders are replaced by their report.json */
    struct qc_report_source from[2] = {{.file = NULL}};
    struct qc_json *read[2] = {NULL, NULL};
    struct qc_report_difference d;
    struct qc_file_list outputs;
    const char *files[2];
    bool ok = find(&files[0], o->operands.items[0], o->job.arena, st) &&
              find(&files[1], o->operands.items[1], o->job.arena, st);
    found.operands.items = files;
    ok = ok && (!o->output ||
                (qc_outputs_apart(&outputs, &o->output, 1, NULL, &found, st) && qc_output_check(o->output, st)));
    for (int k = 0; ok && k < 2; k++) {
        ok = qc_report_read(&read[k], files[k], o->job.arena, st);
        from[k] = (struct qc_report_source){.file = files[k], .report = read[k]};
    }
    ok = ok && qc_report_difference(&d, from, o->job.arena, st) && (!o->output || write_difference_page(&d, o, st));
    if (ok && o->json)
        ok = qc_print_json(qc_report_difference_json(&d), st);
    else if (ok && !o->quiet)
        ok = print_difference(&d, o, st);
    for (int k = 0; k < 2; k++) qc_json_free(read[k]);
    return ok;
}
