// SPDX-License-Identifier: Apache-2.0
/* The page report.html. Its plots and tables are in report_charts.h and report_parts.h, the common parts of pages in
 * html.h. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/deflate.h"
#include "base/status.h"
#include "export/report/html.h"
#include "export/report/report_charts.h"
#include "export/report/report_parts.h"

/* Large pages compress the parts that are hidden at first. A compressed part is the text of a script element that is
 * never run; packed.js replaces it by its content when the part is shown. */

struct qc_html_packed {
    FILE *f; /* collects the text that is compressed */
    char *text;
    size_t size;
};

enum { LEVEL = 6 };

static bool html_packed_begin(struct qc_html_packed *p, struct qc_status *st)
{
    *p = (struct qc_html_packed){.text = NULL};
    p->f = open_memstream(&p->text, &p->size);
    return p->f || qc_fail_memory(st, 1);
}

/* Writes the data in base64 (RFC 4648). */
static void base64(FILE *f, const uint8_t *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const size_t left = size - i;
        const uint32_t v =
            (uint32_t)data[i] << 16 | (left > 1 ? (uint32_t)data[i + 1] << 8 : 0) | (left > 2 ? data[i + 2] : 0);
        fputc(digits[v >> 18], f);
        fputc(digits[v >> 12 & 63], f);
        fputc(left > 1 ? digits[v >> 6 & 63] : '=', f);
        fputc(left > 2 ? digits[v & 63] : '=', f);
    }
}

/* Writes the script element. Frees p also on failure. */
static bool html_packed_end(FILE *f, struct qc_html_packed *p, struct qc_status *st)
{
    struct qc_deflate *d = qc_deflate_new(LEVEL);
    void *packed = NULL;
    size_t size;
    bool ok = fclose(p->f) == 0 && d;
    if (!ok) qc_fail_memory(st, 1);
    ok = ok && qc_deflate_pack(&packed, &size, d, p->text, p->size, 0, st);
    if (ok) {
        fputs("<script type=\"text/plain\" class=\"packed\">", f);
        base64(f, packed, size);
        fputs("</script>\n", f);
    }
    free(packed);
    qc_deflate_free(d);
    free(p->text);
    return ok;
}

/* Pages with more layers or nodes compress hidden parts. */
enum { LAYERS_MAX = 1000, NODES_MAX = 2000 };

static bool is_large(const struct qc_report *r)
{
    return r->layer_count > LAYERS_MAX || r->node_count > NODES_MAX;
}

/* Writes a part of the page, compressed if the page is large. */
static bool part(FILE *f, const struct qc_report *r,
                 bool (*write)(FILE *, const struct qc_report *, struct qc_status *), struct qc_status *st)
{
    struct qc_html_packed p;
    if (!is_large(r)) return write(f, r, st);
    if (!html_packed_begin(&p, st)) return false;
    const bool ok = write(p.f, r, st);
    return html_packed_end(f, &p, st) && ok;
}

/* Writes the screen of the measured activations. */
static bool network_plot(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    struct qc_network_point *points = calloc(r->layer_count + 1, sizeof *points);
    size_t count = 0;
    if (!points) return qc_fail_memory(st, (r->layer_count + 1) * sizeof *points);
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        if (strcmp(l->kind, "activation") != 0 || !isfinite(l->sqnr_db)) continue;
        points[count++] = (struct qc_network_point){.number = i + 1,
                                                    .name = l->name,
                                                    .op = l->op,
                                                    .sqnr_db = l->sqnr_db,
                                                    .rounding_db = l->alone_db,
                                                    .isolated_db = l->isolated_db,
                                                    .cosine = l->cosine,
                                                    .mark = qc_report_suggested(r, i)};
    }
    qc_chart_network_legend(f, points, count);
    fputs("<div class=\"scroll chart\" tabindex=\"0\" role=\"region\" aria-label=\"Error along the network\">", f);
    qc_chart_network(f, points, count);
    fputs("</div>\n<p class=\"readout\" id=\"plot-readout\" role=\"status\"></p>\n", f);
    if (!count) fputs("<p>No layer was measured.</p>\n", f);
    free(points);
    return true;
}

static bool layer_table(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    (void)st;
    qc_html_layer_table(f, r);
    return true;
}

/* Writes a screen; title and note are markup. */
static bool screen(FILE *f, const struct qc_report *r, const char *id, const char *title, const char *note,
                   bool (*write)(FILE *, const struct qc_report *, struct qc_status *), struct qc_status *st)
{
    fprintf(f, "<section class=\"screen\" id=\"%s\"><h2>%s</h2>\n%s", id, title, note);
    if (!part(f, r, write, st)) return false;
    fputs("</section>\n", f);
    return true;
}

/* Writes the details of each layer. A large page compresses them in pieces, so that showing a layer opens one piece. */
static bool details(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    enum { PIECE = 64 };
    qc_html(
        f, "<section id=\"layer\" aria-label=\"Layer\" data-layers=\"%zu\" data-piece=\"%d\"><h2>Layer by layer</h2>\n",
        r->layer_count, PIECE);
    for (size_t first = 0, count; first < r->layer_count; first += count) {
        struct qc_html_packed p;
        count = is_large(r) && r->layer_count - first > PIECE ? PIECE : r->layer_count - first;
        if (!is_large(r)) {
            qc_html_layer_details(f, r, first, count);
            continue;
        }
        if (!html_packed_begin(&p, st)) return false;
        qc_html_layer_details(p.f, r, first, count);
        if (!html_packed_end(f, &p, st)) return false;
    }
    fputs("</section>\n", f);
    return true;
}

static bool again(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    fputs("<section class=\"screen\" id=\"again\">", f);
    qc_page_again(f, r->command, r->version);
    qc_page_file(f, "model", r->model_file, r->model_sha256);
    if (r->data_file) qc_page_file(f, "data", r->data_file, r->data_sha256);
    if (r->statistics_file) qc_page_file(f, "statistics", r->statistics_file, r->statistics_sha256);
    if (r->metric) qc_page_file(f, "labelled data", r->eval_file, NULL);
    for (size_t i = 0; i < r->file_count; i++) qc_page_file(f, "written", r->files[i], NULL);
    fputs("</dl>\n", f);
    if (!qc_page_options(f, r->options, st)) return false;
    fputs("</section>\n", f);
    return true;
}

/* Writes links to the screens. With JavaScript one screen is shown at a time; without it they are one below the other.
 */
static void navigation(FILE *f, const struct qc_report *r)
{
    static const struct {
        const char *id, *words;
    } screens[] = {{"summary", "Summary"}, {"effects", "Effects"}, {"advice", "Advice"}, {"plot", "Plot"},
                   {"table", "Layers"},    {"graph", "Graph"},     {"again", "Files"}};
    qc_html(f, "<nav aria-label=\"Screens\"><div><h1>%s</h1><ul>", qc_page_file_name(r->model_file));
    for (size_t i = 0; i < sizeof screens / sizeof *screens; i++)
        if (r->node_count || strcmp(screens[i].id, "graph") != 0)
            qc_html(f, "<li><a href=\"#%s\" data-words=\"%s\">%s</a></li>", screens[i].id, screens[i].words,
                    screens[i].words);
    fputs("</ul></div></nav>\n<main>\n<div id=\"screens\">\n", f);
}

static bool page(FILE *f, const void *of, struct qc_status *st)
{
    const struct qc_report *r = of;
    static const char *const assets[] = {"report.css", "screens.css", "graph.css", "report.js", "packed.js",
                                         "screens.js", "plot.js",     "graph.js",  NULL};
    qc_page_begin(f, qc_page_file_name(r->model_file), ", quantized: qcalib", assets);
    navigation(f, r);
    if (is_large(r))
        fputs("<noscript><p class=\"note\">This page is large and needs JavaScript for most of its screens; the same "
              "numbers are in report.json and layers.csv.</p></noscript>\n",
              f);
    qc_html_summary(f, r);
    if (!screen(f, r, "effects", "Layers by effect on the outputs", "", qc_html_ranking, st) ||
        !qc_html_advice(f, r, st) || !screen(f, r, "plot", "Error along the network", "", network_plot, st) ||
        !screen(f, r, "table", "Layers",
                "<p class=\"note\">Every tensor that was quantized. SQNR compares the tensor with the float network; a "
                "dash was not measured.</p>\n",
                layer_table, st) ||
        (r->node_count && !screen(f, r, "graph", "The graph", "", qc_html_graph, st)) || !again(f, r, st))
        return false;
    fputs("</div>\n", f);
    if (!details(f, r, st)) return false;
    qc_page_end(f, "Written by qcalib. The same numbers are in report.json and layers.csv; times are only in "
                   "report.json.<span class=\"keys\">Keys: 1 to 7 for the screens, j and k for the next and the "
                   "previous layer, / for search, Esc to close.</span>");
    return true;
}

char *qc_report_html(size_t *size, const struct qc_report *r, struct qc_status *st)
{
    return qc_page_text(size, page, r, st);
}
