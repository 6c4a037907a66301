// SPDX-License-Identifier: Apache-2.0
/* The page of a comparison of two reports. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "export/report/html.h"
#include "export/report/report_difference.h"

static const char *side(int k)
{
    return k ? "second" : "first";
}

static void difference_head(FILE *f, const struct qc_report_difference *d)
{
    qc_html(
        f,
        "<header class=\"broad\"><h1>Two reports of %s</h1>\n<p class=\"verdict\">%s</p>\n<p class=\"note\">Changes "
        "are from the first report to the second.</p></header>\n<main class=\"broad\">\n",
        qc_page_file_name(d->model), d->verdict);
    if (!d->note_count) return;
    fputs("<section class=\"warnings\"><p><b>What is not comparable</b></p><ul>", f);
    for (size_t i = 0; i < d->note_count; i++) qc_html(f, "<li>%s</li>", d->notes[i]);
    fputs("</ul></section>\n", f);
}

static void figures_table(FILE *f, const struct qc_report_difference *d)
{
    char buf[QC_CHANGE_TEXT];
    fputs("<h2>Figures</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Figures\"><table id=\"figures\"><thead><tr><th scope=\"col\">figure</th><th class=\"n\" "
          "scope=\"col\">first</th><th class=\"n\" scope=\"col\">second</th><th class=\"n\" "
          "scope=\"col\">change</th></tr></thead><tbody>\n",
          f);
    for (size_t i = 0; i < d->figure_count; i++) {
        const struct qc_figure *g = &d->figures[i];
        const double by = g->value[1] - g->value[0];
        qc_html(f, "<tr><td>%s</td>", g->name);
        for (int k = 0; k < 2; k++) qc_html(f, "<td class=\"n\">%s</td>", qc_figure_text(buf, g->unit, g->value[k]));
        qc_html(f, "<td class=\"n%s\">%s</td></tr>\n", by * g->better < 0 ? " bad" : "", qc_figure_change(buf, g, "−"));
    }
    fputs("</tbody></table></div>\n", f);
}

static void options_table(FILE *f, const struct qc_report_difference *d)
{
    fputs("<h2>Options that differ</h2>\n", f);
    if (!d->option_count) {
        fputs("<p>All options are the same.</p>\n", f);
        return;
    }
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Options\"><table id=\"options\"><thead>"
          "<tr><th scope=\"col\">option</th><th scope=\"col\">first</th><th scope=\"col\">second</th></tr></thead>"
          "<tbody>\n",
          f);
    for (size_t i = 0; i < d->option_count; i++) {
        qc_html(f, "<tr><td><code>--%s</code></td>", d->options[i].name);
        for (int k = 0; k < 2; k++)
            qc_html(f, "<td class=\"name\">%s</td>",
                    *d->options[i].value[k] ? d->options[i].value[k] : "not in this report");
        fputs("</tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}

static void range(FILE *f, const struct qc_differing_layer *l, int k)
{
    if (isnan(l->low[k]) || isnan(l->high[k]))
        fputs("<td class=\"n\">–</td>", f);
    else
        qc_html(f, "<td class=\"n\">%s to %s</td>", QC_SHORT(l->low[k]), QC_SHORT(l->high[k]));
}

static bool difference_row(FILE *f, const struct qc_differing_layer *l, size_t number, struct qc_arena *a,
                           struct qc_status *st)
{
    const char *what = qc_layer_change(a, l, " → ", st);
    const double by = l->db[1] - l->db[0];
    if (!what) return false;
    qc_html(f, "<tr data-kind=\"%s\"><td class=\"n\" data-v=\"%zu\">%zu</td><td class=\"name\">", l->kind, number,
            number);
    qc_html_name(f, *l->name ? l->name : "(no name)");
    if (isnan(by))
        fputs("</td><td class=\"n\" data-v=\"\">–</td>", f);
    else
        qc_html(f, "</td><td class=\"n%s\" data-v=\"%.9g\">%s%s</td>", by < 0 ? " bad" : "", fabs(by),
                by >= 0 ? "+" : "", QC_FIXED(by, 2));
    for (int k = 0; k < 2; k++) qc_html_cell(f, l->db[k], QC_FIXED(l->db[k], 2));
    qc_html(f, "<td>%s</td>", what);
    for (int k = 0; k < 2; k++) range(f, l, k);
    qc_html(f, "<td>%s</td><td>%s</td></tr>\n", l->op, l->kind);
    return true;
}

static bool layers_table(FILE *f, const struct qc_report_difference *d, struct qc_arena *a, struct qc_status *st)
{
    qc_html(f, "<h2>Layers that differ: %zu of %zu</h2>\n", d->differing_count, d->layer_count);
    fputs("<p class=\"note\">The largest change of SQNR first. SQNR of an activation counts everything before it; of a "
          "weight, its own rounding. Ranges are those that the scales cover.</p>\n"
          "<div class=\"tools\"><input id=\"filter\" type=\"search\" placeholder=\"Filter: name, op, what changed\" "
          "aria-label=\"Filter the table of layers\"><select id=\"kind\" aria-label=\"Kind\"><option "
          "value=\"\">all</option><option value=\"activation\">activations</option><option "
          "value=\"weight\">weights</option></select><span class=\"muted\" id=\"shown\" role=\"status\"></span></div>\n"
          "<div class=\"layers\" tabindex=\"0\" role=\"region\" aria-label=\"Layers that differ\"><table "
          "id=\"layers\"><thead><tr><th class=\"n\" scope=\"col\">#</th><th scope=\"col\">tensor</th><th class=\"n\" "
          "scope=\"col\">change, dB</th><th class=\"n\" scope=\"col\">first, dB</th><th class=\"n\" "
          "scope=\"col\">second, dB</th><th scope=\"col\">what changed</th><th class=\"n\" scope=\"col\">first "
          "range</th><th class=\"n\" scope=\"col\">second range</th><th scope=\"col\">op</th><th "
          "scope=\"col\">kind</th></tr></thead><tbody>\n",
          f);
    for (size_t i = 0; i < d->differing_count; i++)
        if (!difference_row(f, &d->differing[i], i + 1, a, st)) return false;
    fputs("</tbody></table></div>\n<p class=\"none\" hidden>No layer matches the filter.</p>\n", f);
    return true;
}

static void single(FILE *f, const struct qc_report_difference *d, int k)
{
    if (!d->single_count[k]) return;
    qc_html(f, "<h2>Quantized in the %s report only: %zu</h2>\n", side(k), d->single_count[k]);
    qc_html(f,
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Layers of the %s report\"><table><thead>"
            "<tr><th scope=\"col\">tensor</th><th scope=\"col\">type</th><th scope=\"col\">op</th><th "
            "scope=\"col\">kind</th></tr></thead><tbody>\n",
            side(k));
    for (size_t i = 0; i < d->single_count[k]; i++) {
        const struct qc_single_layer *l = &d->single[k][i];
        fputs("<tr><td class=\"name\">", f);
        qc_html_name(f, *l->name ? l->name : "(no name)");
        qc_html(f, "</td><td>%s</td><td>%s</td><td>%s</td></tr>\n", l->type, l->op, l->kind);
    }
    fputs("</tbody></table></div>\n", f);
}

static void same_again(FILE *f, const struct qc_report_difference *d, const char *command, const char *version)
{
    qc_page_again(f, command, version);
    for (int k = 0; k < 2; k++) {
        const struct qc_json *job = qc_json_get(d->from[k].report, "command");
        qc_html(f, "<dt>%s report</dt><dd>%s<br><code>%s</code></dd>", side(k), d->from[k].file,
                job ? qc_json_text(job) : NULL);
    }
    fputs("</dl>\n", f);
}

struct page {
    const struct qc_report_difference *d;
    const char *command, *version;
    struct qc_arena *a;
};

static bool difference_page(FILE *f, const void *of, struct qc_status *st)
{
    static const char *const assets[] = {"report.css", "report.js", NULL};
    const struct page *p = of;
    qc_page_begin(f, qc_page_file_name(p->d->model), ", two reports: qcalib", assets);
    difference_head(f, p->d);
    figures_table(f, p->d);
    options_table(f, p->d);
    if (!layers_table(f, p->d, p->a, st)) return false;
    for (int k = 0; k < 2; k++) single(f, p->d, k);
    same_again(f, p->d, p->command, p->version);
    qc_page_end(f, "Written by qcalib. The same numbers come from <code>qcalib compare-reports --json</code>.");
    return true;
}

char *qc_report_difference_html(size_t *size, const struct qc_report_difference *d, const char *command,
                                const char *version, struct qc_arena *a, struct qc_status *st)
{
    const struct page p = {.d = d, .command = command, .version = version, .a = a};
    return qc_page_text(size, difference_page, &p, st);
}
