// SPDX-License-Identifier: Apache-2.0
#include "export/report/comparison.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/report_charts.h"

static double share(const struct qc_compared_layer *l, uint64_t n)
{
    return l->elements ? (double)n / (double)l->elements : (double)NAN;
}

static const char *name_of(const struct qc_compared_layer *l)
{
    return l->name ? l->name : "(no name)";
}

/* Returns "equal", or decibels. */
static const char *decibel(char buf[QC_HTML_NUMBER], double db)
{
    return isinf(db) && db > 0 ? "equal" : qc_fixed_text(buf, db, 2);
}

static void linked(FILE *f, const struct qc_compared *c, size_t i)
{
    qc_html(f, "<a class=\"name\" href=\"#L%zu\">%s</a>", i + 1, name_of(&c->layers[i]));
}

static void comparison_head(FILE *f, const struct qc_compared *c)
{
    qc_html(f,
            "<header><h1>%s</h1>\n<p>Compared with <b class=\"name\">%s</b> on <b>%zu</b> sample%s of <b "
            "class=\"name\">%s</b>. %zu layer%s of both were matched by name, or by op, shape and order.",
            qc_page_file_name(c->file[1]), qc_page_file_name(c->file[0]), c->samples, qc_plural(c->samples),
            qc_page_file_name(c->data_file), c->layer_count, qc_plural(c->layer_count));
    if (c->contracts)
        qc_html(f, " Integers are rounded by <b>%s</b> in the reference and by <b>%s</b> in the model.", c->rounding[0],
                c->rounding[1]);
    fputs("</p></header>\n<main>\n", f);
}

static void compared_output_tile(FILE *f, const struct qc_compared *c)
{
    const struct qc_compared_output *worst = NULL;
    for (size_t i = 0; i < c->output_count; i++) {
        const struct qc_compared_output *o = &c->outputs[i];
        if (o->differing && (!worst || !(o->sqnr_db >= worst->sqnr_db))) worst = o;
    }
    qc_html(f, "<section class=\"tile\"><h2>%s</h2><div class=\"big\">",
            c->output_count > 1 ? "Outputs, the worst" : "Output");
    if (!worst) {
        fputs("equal</div><div class=\"note\">bit for bit, in every element</div></section>\n", f);
        return;
    }
    if (isfinite(worst->sqnr_db))
        qc_html(f, "%.2f dB</div><div class=\"note name\">%s: cosine %s, at most %s apart", worst->sqnr_db, worst->name,
                QC_FIXED(worst->cosine, 6), QC_SHORT(worst->max_abs));
    else
        qc_html(f, "differs</div><div class=\"note name\">%s", worst->name);
    qc_html(f, "; %" PRIu64 " of %" PRIu64 " elements differ", worst->differing, worst->elements);
    if (!isnan(c->tolerance)) {
        bool met = true;
        for (size_t i = 0; i < c->output_count; i++)
            met = met &&
                  (isnan(c->outputs[i].max_abs) ? !c->outputs[i].differing : c->outputs[i].max_abs <= c->tolerance);
        qc_html(f, ". The tolerance %g is <b class=\"%s\">%s</b>", c->tolerance, met ? "" : "bad",
                met ? "kept" : "exceeded");
    }
    fputs(".</div></section>\n", f);
}

static void comparison_tiles(FILE *f, const struct qc_compared *c)
{
    size_t equal = 0, first = c->layer_count;
    double most = (double)NAN;
    for (size_t i = c->layer_count; i-- > 0;) {
        const struct qc_compared_layer *l = &c->layers[i];
        equal += !l->differing;
        if (l->differing) first = i;
        if (!isnan(l->max_steps)) most = fmax(most, l->max_steps);
    }
    fputs("<div class=\"tiles\">", f);
    compared_output_tile(f, c);
    qc_html(f, "<section class=\"tile\"><h2>Equal layers</h2><div class=\"big\">%zu <small>of %zu</small></div>", equal,
            c->layer_count);
    if (first < c->layer_count) {
        fputs("<div class=\"note\">The first that differs: ", f);
        linked(f, c, first);
        fputs("</div>", f);
    }
    qc_html(f,
            "</section>\n<section class=\"tile\"><h2>Most steps apart</h2><div class=\"big\">%s</div><div "
            "class=\"note\">of the model's scale, in any stored value</div></section></div>\n",
            QC_SHORT(most));
}

/* Writes the layers with the largest ratio of error to signal. */
static void worst(FILE *f, const struct qc_compared *c)
{
    enum { SHOWN = 3 };
    size_t list[SHOWN], count = 0;
    for (size_t i = 0; i < c->layer_count; i++) {
        double db = c->layers[i].sqnr_db;
        size_t at = count;
        if (!isfinite(db)) continue;
        while (at > 0 && c->layers[list[at - 1]].sqnr_db > db) at--;
        if (at >= SHOWN) continue;
        if (count < SHOWN) count++;
        memmove(list + at + 1, list + at, (count - at - 1) * sizeof *list);
        list[at] = i;
    }
    if (!count) {
        fputs("<p class=\"below\">No layer differs.</p>\n", f);
        return;
    }
    fputs("<p class=\"below\">Furthest apart: ", f);
    for (size_t k = 0; k < count; k++) {
        const struct qc_compared_layer *l = &c->layers[list[k]];
        if (k) fputs(", ", f);
        linked(f, c, list[k]);
        qc_html(f, " (%s) %.2f dB", l->op, l->sqnr_db);
    }
    fputs(".</p>\n", f);
}

static struct qc_network_point point_of(const struct qc_compared *c, size_t i)
{
    const struct qc_compared_layer *l = &c->layers[i];
    struct qc_network_point p = {.number = i + 1,
                                 .name = name_of(l),
                                 .op = l->op,
                                 .sqnr_db = l->sqnr_db,
                                 .rounding_db = (double)NAN,
                                 .isolated_db = (double)NAN,
                                 .cosine = l->cosine};
    uint64_t apart = 0;
    for (int k = QC_COMPARED_STEPS - 1; k > 0; k--) {
        apart += l->steps[k];
        p.apart[k - 1] = isnan(l->max_steps) ? (double)NAN : share(l, apart);
    }
    return p;
}

static void step_legend(FILE *f)
{
    static const char *const css[3][2] = {{"line", "dot"}, {"line2", "dot2"}, {"line3", "dot3"}};
    fputs("<ul class=\"legend\">", f);
    for (int k = 0; k < 3; k++)
        qc_html(f,
                "<li><svg width=\"26\" height=\"10\"><path class=\"%s\" d=\"M0 5H26\"/><circle class=\"%s\" cx=\"13\" "
                "cy=\"5\" r=\"2.8\"/></svg>%d step%s or more apart</li>",
                css[k][0], css[k][1], k + 1, k ? "s" : "");
    fputs("</ul>\n", f);
}

static bool comparison_plots(FILE *f, const struct qc_compared *c, struct qc_status *st)
{
    struct qc_network_point *points = calloc(c->layer_count + 1, sizeof *points);
    size_t count = 0, stored = 0, differing = 0;
    if (!points) return qc_fail_memory(st, (c->layer_count + 1) * sizeof *points);
    for (size_t i = 0; i < c->layer_count; i++) {
        if (isnan(c->layers[i].sqnr_db)) continue;
        differing += c->layers[i].differing > 0;
        points[count] = point_of(c, i);
        if (!isnan(points[count++].apart[0])) stored++;
    }
    if (differing) {
        fputs(
            "<h2>Differences along the network</h2>\n<p class=\"note\">Of the model's values against the "
            "reference's; at the upper edge: equal.</p>\n"
            "<div class=\"scroll chart\" tabindex=\"0\" role=\"region\" aria-label=\"Differences along the network\">",
            f);
        qc_chart_network(f, points, count);
        fputs("</div>\n", f);
    }
    if (differing && stored) {
        qc_html(f, "<h2>%s</h2>\n",
                c->contracts ? "How differences between the two contracts grow" : "Steps apart along the network");
        step_legend(f);
        fputs(
            "<div class=\"scroll chart\" tabindex=\"0\" role=\"region\" aria-label=\"Steps apart along the network\">",
            f);
        qc_chart_steps(f, points, count, 1072, "wide");
        qc_chart_steps(f, points, count, 366, "narrow");
        fputs("</div>\n", f);
    }
    free(points);
    return true;
}

/* Draws elements by steps as one bar: equal, 1, 2, more. */
static void bar(FILE *f, const struct qc_compared_layer *l)
{
    enum { WIDE = 96 };
    static const char *const css[QC_COMPARED_STEPS] = {"span", "bars", "bars two", "bars out"};
    if (isnan(l->max_steps) || !l->elements) return;
    fputs("<svg width=\"96\" height=\"12\" role=\"img\"><title>", f);
    for (int k = 0; k < QC_COMPARED_STEPS; k++)
        qc_html(f, "%s%" PRIu64 " element%s %d%s step%s apart", k ? ", " : "", l->steps[k], qc_plural(l->steps[k]), k,
                k + 1 == QC_COMPARED_STEPS ? " or more" : "", qc_plural((size_t)k));
    fputs("</title>", f);
    double at = 0;
    for (int k = 0; k < QC_COMPARED_STEPS; k++) {
        double width = WIDE * share(l, l->steps[k]);
        if (l->steps[k])
            qc_html(f, "<rect class=\"%s\" x=\"%.2f\" y=\"1\" width=\"%.2f\" height=\"10\"/>", css[k],
                    fmin(at, WIDE - 1), fmax(width, 1));
        at += width;
    }
    fputs("</svg>", f);
}

static void comparison_row(FILE *f, const struct qc_compared *c, size_t i)
{
    const struct qc_compared_layer *l = &c->layers[i];
    qc_html(f, "<tr data-kind=\"%s\" id=\"L%zu\"><td class=\"n\" data-v=\"%zu\">%zu</td><td class=\"name\">%s</td>",
            l->differing ? "differing" : "equal", i + 1, i + 1, i + 1, name_of(l));
    qc_html_cell(f, l->sqnr_db, decibel(QC_HTML_BUFFER, l->sqnr_db));
    qc_html_cell(f, l->cosine, QC_FIXED(l->cosine, 6));
    qc_html_cell(f, l->mse, QC_SHORT(l->mse));
    qc_html_cell(f, l->max_abs, QC_SHORT(l->max_abs));
    qc_html_cell(f, l->max_steps, QC_SHORT(l->max_steps));
    qc_html_cell(f, share(l, l->differing), QC_PERCENT(share(l, l->differing)));
    if (isnan(l->max_steps))
        fputs("<td class=\"n\" data-v=\"\">", f);
    else
        qc_html(f, "<td class=\"n\" data-v=\"%.9g\">", share(l, l->elements - l->steps[0]));
    bar(f, l);
    qc_html(f, "</td><td>%s</td><td>%s</td></tr>\n", l->op, l->by_name ? "name" : "order");
}

static void comparison_table(FILE *f, const struct qc_compared *c)
{
    fputs(
        "<h2>Layers</h2>\n<ul class=\"legend\"><li><svg width=\"26\" height=\"12\"><rect class=\"span\" y=\"1\" "
        "width=\"26\" height=\"10\"/></svg>equal</li><li><svg width=\"26\" height=\"12\"><rect class=\"bars\" y=\"1\" "
        "width=\"26\" height=\"10\"/></svg>1 step apart</li><li><svg width=\"26\" height=\"12\"><rect class=\"bars "
        "two\" y=\"1\" width=\"26\" height=\"10\"/></svg>2 steps</li><li><svg width=\"26\" height=\"12\">"
        "<rect class=\"bars out\" y=\"1\" width=\"26\" height=\"10\"/></svg>3 or more</li></ul>\n"
        "<div class=\"tools\"><input id=\"filter\" type=\"search\" placeholder=\"Filter: name, op\" "
        "aria-label=\"Filter the table of layers\">"
        "<select id=\"kind\" aria-label=\"Kind\"><option value=\"\">all</option><option "
        "value=\"differing\">differing</option><option value=\"equal\">equal</option></select>"
        "<span class=\"muted\" id=\"shown\" role=\"status\"></span></div>\n"
        "<div class=\"layers\" tabindex=\"0\" role=\"region\" aria-label=\"Layers\"><table "
        "id=\"layers\"><thead><tr><th class=\"n\" scope=\"col\">#</th><th scope=\"col\">value</th>"
        "<th class=\"n\" scope=\"col\">SQNR, dB</th><th class=\"n\" "
        "scope=\"col\">cosine</th><th class=\"n\" scope=\"col\">MSE</th>"
        "<th class=\"n\" scope=\"col\">max</th><th class=\"n\" scope=\"col\">max steps</th>"
        "<th class=\"n\" scope=\"col\">differing</th><th class=\"n\" scope=\"col\" "
        "title=\"elements by steps apart\">steps</th><th scope=\"col\">op</th>"
        "<th scope=\"col\">matched</th></tr></thead><tbody>\n",
        f);
    for (size_t i = 0; i < c->layer_count; i++) comparison_row(f, c, i);
    fputs(
        "</tbody></table></div>\n<p class=\"none\" hidden>No layer matches the filter.</p>\n"
        "<details class=\"meanings\"><summary>What the columns mean</summary><dl><dt>SQNR, dB</dt><dd>the reference's "
        "signal to the noise that is the difference</dd><dt>MSE</dt><dd>mean squared difference</dd><dt>max</dt>"
        "<dd>largest difference</dd><dt>max steps</dt><dd>the same in steps of the model's scale</dd><dt>differing</dt>"
        "<dd>share of the elements that differ</dd><dt>steps</dt><dd>elements by steps "
        "apart</dd><dt>matched</dt><dd>how "
        "the layer was found in both models: by name, or by op, shape and order</dd></dl></details>\n",
        f);
}

static void outputs(FILE *f, const struct qc_compared *c)
{
    if (c->output_count < 2) return;
    fputs("<h2>Outputs</h2>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
          "aria-label=\"Outputs\"><table><thead><tr><th>output</th><th class=\"n\">SQNR, dB</th><th "
          "class=\"n\">cosine</th><th class=\"n\">max</th><th class=\"n\">differing</th>"
          "<th class=\"n\">elements</th></tr></thead><tbody>\n",
          f);
    for (size_t i = 0; i < c->output_count; i++) {
        const struct qc_compared_output *o = &c->outputs[i];
        qc_html(f,
                "<tr><td class=\"name\">%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td><td "
                "class=\"n\">%s</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64 "</td></tr>\n",
                o->name, o->differing ? decibel(QC_HTML_BUFFER, o->sqnr_db) : "equal", QC_FIXED(o->cosine, 6),
                QC_SHORT(o->max_abs), o->differing, o->elements);
    }
    fputs("</tbody></table></div>\n", f);
}

static bool comparison_page(FILE *f, const void *of, struct qc_status *st)
{
    const struct qc_compared *c = of;
    static const char *const assets[] = {"report.css", "report.js", NULL};
    qc_page_begin(f, qc_page_file_name(c->file[1]), " compared: qcalib", assets);
    comparison_head(f, c);
    comparison_tiles(f, c);
    worst(f, c);
    if (!comparison_plots(f, c, st)) return false;
    outputs(f, c);
    comparison_table(f, c);
    qc_page_again(f, c->command, c->version);
    qc_page_file(f, "reference", c->file[0], c->sha256[0]);
    qc_page_file(f, "model", c->file[1], c->sha256[1]);
    qc_page_file(f, "data", c->data_file, c->data_sha256);
    fputs("</dl>\n", f);
    if (!qc_page_options(f, c->options, st)) return false;
    qc_page_end(f, "Written by qcalib. The same numbers come from <code>qcalib compare --json</code>.");
    return true;
}

char *qc_comparison_html(size_t *size, const struct qc_compared *c, struct qc_status *st)
{
    return qc_page_text(size, comparison_page, c, st);
}
