// SPDX-License-Identifier: Apache-2.0
#include "export/report/report_parts.h"

#include <math.h>

#include "export/report/html.h"

/* A plot of 640 x 250 with room for the axes; an error of 0 is drawn at its lower edge. */
enum { WIDTH = 640, HEIGHT = 250, LEFT = 52, RIGHT = 16, TOP = 22, BOTTOM = 38, SHOWN = 12 };

static const double inner_width = WIDTH - LEFT - RIGHT, inner_height = HEIGHT - TOP - BOTTOM, DECADES = 12;

struct plot {
    double from, to, lo, hi; /* bytes; log10 of the error */
    double unit;             /* bytes in the unit of the axis labels */
};

static double across(const struct plot *p, size_t bytes)
{
    return LEFT + ((double)bytes - p->from) / (p->to - p->from) * inner_width;
}

static double up(const struct plot *p, double error)
{
    const double at = error > 0 ? fmax(p->lo, log10(error)) : p->lo;
    return TOP + (p->hi - at) / (p->hi - p->lo) * inner_height;
}

static void reach(struct plot *p, size_t bytes, double error)
{
    p->from = fmin(p->from, (double)bytes);
    p->to = fmax(p->to, (double)bytes);
    if (!(error > 0)) return;
    p->lo = fmin(p->lo, log10(error));
    p->hi = fmax(p->hi, log10(error));
}

static struct plot extent(const struct qc_report_size *s)
{
    struct plot p = {.from = (double)s->limit, .to = (double)s->limit, .lo = (double)INFINITY, .hi = -(double)INFINITY};
    if (s->row_count && s->limit > 2 * s->rows[s->row_count - 1].bytes) p.from = p.to = (double)s->bytes;
    for (size_t i = 0; i < s->row_count; i++) reach(&p, s->rows[i].bytes, s->rows[i].error);
    for (size_t i = 0; i < s->uniform_count; i++) reach(&p, s->uniform[i].bytes, s->uniform[i].error);
    if (!(p.lo <= p.hi)) p.lo = p.hi = 0;
    p.hi = ceil(p.hi + 1e-9);
    p.lo = fmax(floor(p.lo), p.hi - DECADES);
    if (p.lo >= p.hi) p.lo = p.hi - 1;
    if (!(p.from < p.to)) p.to = p.from + 1;
    p.unit = p.to >= 2e6 ? 1e6 : p.to >= 2e3 ? 1e3 : 1;
    return p;
}

static void axes(FILE *f, const struct plot *p)
{
    double first, step;
    qc_html_ticks(&first, &step, p->from / p->unit, p->to / p->unit, 6);
    qc_html(f, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>", LEFT, TOP + inner_height + .5, WIDTH - RIGHT);
    for (double v = first; v <= p->to / p->unit + step * 1e-9; v += step) {
        const double x = LEFT + (v * p->unit - p->from) / (p->to - p->from) * inner_width;
        qc_html(f,
                "<path class=\"axis\" d=\"M%.1f %.1fv4\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
                x, TOP + inner_height, x, TOP + inner_height + 16, QC_SHORT(v));
    }
    qc_html(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s of the file</text>\n", LEFT + inner_width / 2,
            HEIGHT - 4,
            p->unit > 1e5 ? "MB"
            : p->unit > 1 ? "KB"
                          : "bytes");
    const double every = fmax(1, ceil((p->hi - p->lo) / 5));
    for (double v = p->lo; v <= p->hi; v += every) {
        const double y = TOP + (p->hi - v) / (p->hi - p->lo) * inner_height;
        qc_html(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, y, WIDTH - RIGHT);
        qc_html_power(f, LEFT - 6, y + 4, v);
    }
    fputs("<text x=\"4\" y=\"12\">expected error</text>\n", f);
}

static void chart(FILE *f, const struct qc_report_size *s)
{
    const struct plot p = extent(s);
    qc_html(f,
            "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>Expected error for the size of "
            "the file</title>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    axes(f, &p);
    if ((double)s->limit >= p.from && (double)s->limit <= p.to)
        qc_html(f, "<path class=\"limit\" d=\"M%.1f %dV%.1f\"/>", across(&p, s->limit), TOP, TOP + inner_height);
    fputs("<path class=\"line\" d=\"", f);
    for (size_t i = 0; i < s->row_count; i++)
        qc_html(f, "%s%.1f %.1f", i ? "L" : "M", across(&p, s->rows[i].bytes), up(&p, s->rows[i].error));
    fputs("\"/>\n", f);
    for (size_t i = 0; i < s->uniform_count; i++)
        qc_html(f,
                "<circle class=\"dot3\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/><text x=\"%.1f\" y=\"%.1f\" "
                "text-anchor=\"%s\">all %u bits</text>",
                across(&p, s->uniform[i].bytes), up(&p, s->uniform[i].error),
                across(&p, s->uniform[i].bytes) + (i ? 6 : -6), up(&p, s->uniform[i].error) - 6, i ? "start" : "end",
                s->uniform[i].bits);
    for (size_t i = 0; i < s->row_count; i++)
        if (s->rows[i].chosen)
            qc_html(f, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>", across(&p, s->rows[i].bytes),
                    up(&p, s->rows[i].error));
    fputs("</svg>\n", f);
}

void qc_html_size(FILE *f, const struct qc_report *r)
{
    const struct qc_report_size *s = r->size;
    if (!s) return;
    qc_html(f, "<h2>Bits for the size: %zu bytes of at most %zu</h2>\n<p>", s->bytes, s->limit);
    fputs(s->of_outputs
              ? "The line is the least expected noise-to-signal ratio of the outputs from rounded weights, for each "
                "file size; the large point is the written file, the dashed line the limit."
              : "There were no samples: the line is the error of the weights themselves, the same for all layers.",
          f);
    fputs("</p>\n<div class=\"scroll\">", f);
    chart(f, s);
    qc_html(f,
            "</div>\n<details><summary>%zu layers</summary><div class=\"scroll\"><table><thead><tr><th>layer</th><th "
            "class=\"n\">bits</th><th class=\"n\">bytes</th><th class=\"n\">expected error</th></tr></thead><tbody>\n",
            s->layer_count);
    for (size_t i = 0; i < s->layer_count; i++) {
        const struct qc_report_size_layer *l = &s->layers[i];
        qc_html(f,
                "<tr><td class=\"name\">%s</td><td class=\"n\">%u</td><td class=\"n\">%zu</td><td "
                "class=\"n\">%s</td></tr>\n",
                l->node, l->bits, l->bytes, QC_SHORT(l->error));
    }
    fputs("</tbody></table></div></details>\n", f);
    if (s->option_count > SHOWN) return;
    fputs("<p style=\"margin-top:10px\">Options that give the same result:</p>\n", f);
    qc_page_command(f, s->command);
}

void qc_json_size_choice(struct qc_json *o, const struct qc_report_size *s)
{
    struct qc_json *size = qc_json_object(), *list = qc_json_array(), *item;
    qc_json_set(size, "limit", qc_json_whole(s->limit));
    qc_json_set(size, "bytes", qc_json_whole(s->bytes));
    qc_json_set(size, "expected_error", qc_json_number(s->error));
    qc_json_set(size, "error_of", qc_json_string(s->of_outputs ? "outputs" : "weights"));
    for (size_t i = 0; i < s->layer_count; i++) {
        qc_json_add(list, item = qc_json_object());
        qc_json_set(item, "node", qc_json_string(s->layers[i].node));
        qc_json_set(item, "bits", qc_json_integer(s->layers[i].bits));
        qc_json_set(item, "bytes", qc_json_whole(s->layers[i].bytes));
        qc_json_set(item, "expected_error", qc_json_number(s->layers[i].error));
    }
    qc_json_set(size, "layers", list);
    list = qc_json_array();
    for (size_t i = 0; i < s->uniform_count; i++) {
        qc_json_add(list, item = qc_json_object());
        qc_json_set(item, "bits", qc_json_integer(s->uniform[i].bits));
        qc_json_set(item, "bytes", qc_json_whole(s->uniform[i].bytes));
        qc_json_set(item, "expected_error", qc_json_number(s->uniform[i].error));
    }
    qc_json_set(size, "uniform", list);
    list = qc_json_array();
    for (size_t i = 0; i < s->option_count; i++) qc_json_add(list, qc_json_string(s->options[i]));
    qc_json_set(size, "options", list);
    qc_json_set(size, "command", qc_json_string(s->command));
    qc_json_set(o, "size", size);
    list = qc_json_array();
    for (size_t i = 0; i < s->row_count; i++) {
        qc_json_add(list, item = qc_json_object());
        qc_json_set(item, "bytes", qc_json_whole(s->rows[i].bytes));
        qc_json_set(item, "expected_error", qc_json_number(s->rows[i].error));
        qc_json_set(item, "chosen", qc_json_bool(s->rows[i].chosen));
    }
    qc_json_set(o, "frontier", list);
}
