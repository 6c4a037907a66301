// SPDX-License-Identifier: Apache-2.0
/* The graph as it was partitioned. */
#include <math.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/layered.h"
#include "export/report/report_charts.h"

enum { LABEL = 30 }; /* characters of a box */

/* Arithmetic on constants is left out. */
static bool shown(const struct qc_report_node *n)
{
    return n->kind != QC_NODE_SHAPE || n->input_count;
}

static const char *css(enum qc_report_node_kind k)
{
    switch (k) {
    case QC_NODE_INTEGER: return "q";
    case QC_NODE_FLOAT: return "f";
    case QC_NODE_SHAPE:
    case QC_NODE_INPUT:
    case QC_NODE_OUTPUT: return "io";
    }
    return "";
}

/* What a box says: the ops, or the name of an input or output. */
static const char *words(const struct qc_report_node *n)
{
    return n->kind == QC_NODE_INPUT || n->kind == QC_NODE_OUTPUT ? n->name : n->label;
}

/* Characters, at most LABEL; *whole: all of them. */
static size_t letters(const char *s, bool *whole)
{
    size_t count = 0;
    *whole = true;
    for (; *s; s++) {
        if (((unsigned char)*s & 0xc0) == 0x80) continue;
        if (count == LABEL) {
            *whole = false;
            return count;
        }
        count++;
    }
    return count;
}

static void label(FILE *f, const char *s)
{
    bool whole;
    size_t count = letters(s, &whole), at = 0;
    for (size_t seen = 0; s[at]; at++)
        if (((unsigned char)s[at] & 0xc0) != 0x80 && seen++ == count) break;
    qc_html_part(f, s, at);
    if (!whole) fputs("…", f);
}

static void edge(FILE *f, const struct qc_layered_edge *e, const char *class)
{
    qc_html(f, "<path class=\"%s\" d=\"M%.1f %.1f", class, e->x[0], e->y[0]);
    for (size_t i = 1; i < e->point_count; i++) {
        double half = (e->y[i] - e->y[i - 1]) / 2;
        if (fabs(e->x[i] - e->x[i - 1]) < .05)
            qc_html(f, "V%.1f", e->y[i]);
        else
            qc_html(f, "C%.1f %.1f %.1f %.1f %.1f %.1f", e->x[i - 1], e->y[i - 1] + half, e->x[i], e->y[i] - half,
                    e->x[i], e->y[i]);
    }
    fputs("\"/>\n", f);
}

static bool hurts(const struct qc_report *r, const struct qc_report_node *n)
{
    for (size_t i = 0; i < r->suggestion_count; i++)
        if (n->name && strcmp(n->name, r->suggestions[i].node) == 0) return true;
    return false;
}

static void box(FILE *f, const struct qc_report *r, const struct qc_report_node *n, double x, double y, double width)
{
    bool link = n->layer != QC_NO_INDEX;
    if (link)
        qc_html(f, "<a href=\"#L%zu\" tabindex=\"-1\" class=\"%s%s\">", n->layer + 1, css(n->kind),
                hurts(r, n) ? " hurt" : "");
    else
        qc_html(f, "<g class=\"%s%s\">", css(n->kind), hurts(r, n) ? " hurt" : "");
    fputs("<title>", f);
    qc_html_text(f, n->name);
    fputs(": ", f);
    qc_html_text(f, n->label);
    if (n->reason) {
        fputs("; float: ", f);
        qc_html_text(f, n->reason);
    }
    if (link && isfinite(r->layers[n->layer].sqnr_db)) qc_html(f, "; %.2f dB", r->layers[n->layer].sqnr_db);
    qc_html(f,
            "</title><rect x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%d\" rx=\"5\"/><text x=\"%.1f\" y=\"%.1f\">",
            x, y, width, QC_LAYERED_HEIGHT, x + width / 2, y + 16);
    label(f, words(n));
    fputs(link ? "</text></a>\n" : "</text></g>\n", f);
}

bool qc_chart_graph(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    struct qc_arena *a = qc_arena_new();
    struct qc_layered *d;
    size_t count = 0, edges = 0;
    bool ok = false, whole;
    if (!a) return qc_fail_memory(st, 1);
    struct qc_layered_node *nodes = QC_NEW_ARRAY(a, struct qc_layered_node, r->node_count, st);
    size_t *of = QC_NEW_ARRAY(a, size_t, r->node_count, st), *back = QC_NEW_ARRAY(a, size_t, r->node_count, st);
    if (!nodes || !of || !back) goto out;
    for (size_t i = 0; i < r->node_count; i++) {
        const struct qc_report_node *n = &r->nodes[i];
        of[i] = QC_NO_INDEX;
        if (!shown(n)) continue;
        size_t *inputs = QC_NEW_ARRAY(a, size_t, n->input_count, st);
        struct qc_layered_node *to = &nodes[count];
        if (!inputs) goto out;
        to->width = fmax(44, 18 + 6.3 * (double)letters(words(n), &whole));
        for (size_t k = 0; k < n->input_count; k++)
            if (of[n->inputs[k]] != QC_NO_INDEX) inputs[to->input_count++] = of[n->inputs[k]];
        to->inputs = inputs;
        back[count] = i;
        of[i] = count++;
        edges += to->input_count;
    }
    if (!qc_layered_new(&d, nodes, count, a, st)) goto out;
    qc_html(f,
            "<svg width=\"%.0f\" height=\"%.0f\" viewBox=\"-2 -2 %.0f %.0f\" role=\"img\"><title>The graph: %zu boxes, "
            "%zu edges</title>\n",
            d->width + 4, d->height + 4, d->width + 4, d->height + 4, count, edges);
    for (size_t k = 0; k < d->edge_count; k++) edge(f, &d->edges[k], css(r->nodes[back[d->edges[k].from]].kind));
    for (size_t i = 0; i < count; i++) box(f, r, &r->nodes[back[i]], d->x[i], d->y[i], nodes[i].width);
    ok = true;
    fputs("</svg>\n", f);
out:
    qc_arena_free(a);
    return ok;
}
