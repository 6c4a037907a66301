// SPDX-License-Identifier: Apache-2.0
/* Plots of the whole network: error along it, and accuracy with its interval. */
#include <math.h>
#include <string.h>

#include "export/html.h"
#include "export/report_charts.h"

enum { LEFT = 46, RIGHT = 14, TOP = 22, UPPER = 190, SPACE = 30, LOWER = 90, BOTTOM = 34 };

struct plot {
    double width, lo, hi; /* dB */
    double close, far;    /* log10(1 - cosine) */
    size_t count;
};

static bool drawn(const struct qc_layer *l)
{
    return strcmp(l->kind, "activation") == 0 && isfinite(l->sqnr_db);
}

static double across(const struct plot *p, size_t at)
{
    return LEFT + ((double)at + .5) / (double)p->count * (p->width - LEFT - RIGHT);
}

static double up(const struct plot *p, double db)
{
    return TOP + (p->hi - fmin(db, p->hi)) / (p->hi - p->lo) * UPPER;
}

static double distance(const struct qc_layer *l)
{
    return log10(fmax(1 - l->cosine, 1e-9));
}

static double down(const struct plot *p, double v)
{
    return TOP + UPPER + SPACE + (p->far - v) / (p->far - p->close) * LOWER;
}

static struct plot extent(const struct qc_report *r, double width)
{
    struct plot p = {.lo = (double)INFINITY, .hi = -(double)INFINITY, .close = (double)INFINITY, .far = -(double)INFINITY};
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        if (!drawn(l)) continue;
        p.count++;
        p.lo = fmin(p.lo, l->sqnr_db);
        p.hi = fmax(p.hi, l->sqnr_db);
        if (isfinite(l->alone_db)) {
            p.lo = fmin(p.lo, l->alone_db);
            p.hi = fmax(p.hi, l->alone_db);
        }
        if (!isfinite(l->cosine)) continue;
        p.close = fmin(p.close, distance(l));
        p.far = fmax(p.far, distance(l));
    }
    p.lo = fmin(0, floor(p.lo / 10) * 10);
    p.hi = fmax(p.lo + 10, ceil(p.hi / 10) * 10);
    p.close = isfinite(p.close) ? floor(p.close) : -1;
    p.far = fmax(p.close + 1, isfinite(p.far) ? ceil(p.far) : 0);
    p.width = fmax(width, (double)p.count * 9 + LEFT + RIGHT);
    return p;
}

static void axes(FILE *f, const struct qc_report *r, const struct plot *p)
{
    double first, step;
    qc_html(f, "<text x=\"4\" y=\"12\">SQNR, dB</text><text x=\"4\" y=\"%d\">1 − cosine</text>\n", TOP + UPPER + SPACE - 10);
    qc_html_ticks(&first, &step, p->lo, p->hi, 6);
    for (double v = first; v <= p->hi + step * 1e-9; v += step)
        qc_html(f, "<path class=\"grid\" d=\"M%d %.1fH%.0f\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>", LEFT, up(p, v), p->width - RIGHT, LEFT - 6, up(p, v) + 4, v);
    step = p->far - p->close > 4 ? 2 : 1;
    for (double v = p->close; v <= p->far; v += step)
        qc_html(f, "<path class=\"grid\" d=\"M%d %.1fH%.0f\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">10<tspan dy=\"-4\" font-size=\"8\">%s%.0f</tspan></text>", LEFT, down(p, v),
                p->width - RIGHT, LEFT - 6, down(p, v) + 4, v < 0 ? "−" : "", fabs(v));
    double base = TOP + UPPER + SPACE + LOWER;
    qc_html(f, "<path class=\"axis\" d=\"M%d %.1fH%.0f\"/>", LEFT, base + .5, p->width - RIGHT);
    qc_html_ticks(&first, &step, 0, fmax(2, (double)p->count), p->width > 500 ? 12 : 5);
    size_t at = 0, every = (size_t)fmax(1, step);
    for (size_t i = 0; i < r->layer_count; i++) {
        if (!drawn(&r->layers[i])) continue;
        if (at % every == 0) qc_html(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%zu</text>", across(p, at), base + 15, i + 1);
        at++;
    }
    qc_html(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">number of the layer, in the order of the network</text>\n", LEFT + (p->width - LEFT - RIGHT) / 2, base + 30);
}

/* A line through what is there; gaps where it is not. */
static void line(FILE *f, const struct qc_report *r, const struct plot *p, const char *css, bool alone)
{
    size_t at = 0;
    bool pen = false;
    qc_html(f, "<path class=\"%s\" d=\"", css);
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        if (!drawn(l)) continue;
        double v = alone ? l->alone_db : l->sqnr_db;
        if (isfinite(v)) qc_html(f, "%s%.1f %.1f", pen ? "L" : "M", across(p, at), up(p, v));
        pen = isfinite(v);
        at++;
    }
    fputs("\"/>\n", f);
}

static int suggested(const struct qc_report *r, size_t layer)
{
    for (size_t i = 0; i < r->suggestion_count; i++)
        if (r->suggestions[i].layer == layer) return (int)i + 1;
    return 0;
}

static void points(FILE *f, const struct qc_report *r, const struct plot *p)
{
    size_t at = 0;
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        if (!drawn(l)) continue;
        double x = across(p, at++), y = up(p, l->sqnr_db);
        int mark = suggested(r, i);
        qc_html(f, "<a href=\"#L%zu\" tabindex=\"-1\"><title>", i + 1);
        qc_html_text(f, l->name);
        qc_html(f, " (");
        qc_html_text(f, l->op);
        fputs("): ", f);
        qc_html_fixed(f, l->sqnr_db, 2);
        fputs(" dB, rounding alone ", f);
        qc_html_fixed(f, l->alone_db, 2);
        qc_html(f, " dB, cosine %.6f</title>", l->cosine);
        if (isfinite(l->alone_db)) qc_html(f, "<circle class=\"dot2\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", x, up(p, l->alone_db));
        qc_html(f, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"3.2\"/>", x, y);
        if (isfinite(l->cosine)) qc_html(f, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", x, down(p, distance(l)));
        if (mark)
            qc_html(f, "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"/><text class=\"marktext\" x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%d</text>", x, y, x, y + 20 < TOP + UPPER ? y + 20 : y - 11,
                    mark);
        fputs("</a>\n", f);
    }
}

size_t qc_chart_network(FILE *f, const struct qc_report *r, double width, const char *css)
{
    struct plot p = extent(r, width);
    int height = TOP + UPPER + SPACE + LOWER + BOTTOM;
    if (!p.count) return 0;
    qc_html(f, "<svg class=\"%s\" width=\"%.0f\" height=\"%d\" viewBox=\"0 0 %.0f %d\" role=\"img\"><title>Error of each tensor along the network</title>\n", css, p.width, height, p.width, height);
    axes(f, r, &p);
    line(f, r, &p, "line2", true);
    line(f, r, &p, "line", false);
    points(f, r, &p);
    fputs("</svg>\n", f);
    return p.count;
}

void qc_chart_interval(FILE *f, const struct qc_report *r)
{
    enum { WIDE = 300, TALL = 66, NAME = 34, END = 290 };
    double lo = fmin(r->fp32_low, r->int8_low), hi = fmax(r->fp32_high, r->int8_high);
    if (!r->metric || !isfinite(lo) || !isfinite(hi) || !(lo < hi)) return;
    const double low[2] = {r->fp32_low, r->int8_low}, high[2] = {r->fp32_high, r->int8_high}, at[2] = {r->fp32, r->int8};
    static const char *const names[2] = {"fp32", "int8"}, *const line[2] = {"line", "line2"}, *const dot[2] = {"dot", "dot2"};
    double pad = (hi - lo) * .06, unit = (END - NAME - 8) / (hi - lo + 2 * pad), first, step;
    lo -= pad;
    hi += pad;
    qc_html(f, "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>Accuracy with 95 %% intervals</title>", WIDE, TALL, WIDE, TALL);
    qc_html_ticks(&first, &step, 100 * lo, 100 * hi, 5);
    for (double v = first; v <= 100 * hi; v += step) {
        double x = NAME + 8 + (v / 100 - lo) * unit;
        qc_html(f, "<path class=\"grid\" d=\"M%.1f 4V46\"/><text x=\"%.1f\" y=\"60\" text-anchor=\"middle\">%.*f %%</text>", x, x, step < 1 ? 1 : 0, v);
    }
    for (int i = 0; i < 2; i++) {
        double y = 14 + 20 * i, x = NAME + 8 + (at[i] - lo) * unit;
        qc_html(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text><path class=\"%s\" style=\"stroke-dasharray:none;stroke-width:2\" d=\"M%.1f %.1fH%.1f\"/><circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>", NAME,
                y + 4, names[i], line[i], NAME + 8 + (low[i] - lo) * unit, y, NAME + 8 + (high[i] - lo) * unit, dot[i], x, y);
    }
    fputs("</svg>\n", f);
}
