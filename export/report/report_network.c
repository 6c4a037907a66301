// SPDX-License-Identifier: Apache-2.0
/* Plots of the whole network: its errors, steps between two graphs, and accuracy with its interval. */
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/report_charts.h"

enum { LEFT = 46, RIGHT = 14, TOP = 22, UPPER = 300, SPACE = 30, LOWER = 130, BOTTOM = 34 };

/* With more points only the top line has dots, because dots would overlap. */
enum { DOTTED_MAX = 1000 };

struct plot {
    double width, lo, hi; /* dB */
    double close, far;    /* log10(1 - cosine) */
    const struct qc_network_point *points;
    size_t count;
};

/* Lines of the upper plot; the last is on top. */
enum { LINES = 3 };

static const struct {
    size_t offset; /* of the value in a point */
    const char *line, *dot, *words, *hint;
    double radius;
} lines[LINES] = {
    {offsetof(struct qc_network_point, isolated_db), "line3", "dot3",
     "isolated: of the output, with only this layer quantized", "isolated", 2.6},
    {offsetof(struct qc_network_point, rounding_db), "line2", "dot2",
     "rounding alone: of this tensor, with everything before it exact", "rounding alone", 2.6},
    {offsetof(struct qc_network_point, sqnr_db), "line", "dot",
     "accumulated: of this tensor, with everything before it quantized", "accumulated", 3.2},
};

static double value_of(const struct qc_network_point *p, int line)
{
    return *(const double *)((const char *)p + lines[line].offset);
}

static bool has(const struct qc_network_point *points, size_t count, int k)
{
    for (size_t i = 0; i < count; i++)
        if (!isnan(value_of(&points[i], k))) return true;
    return false;
}

void qc_chart_network_legend(FILE *f, const struct qc_network_point *points, size_t count)
{
    fputs("<ul class=\"legend\">", f);
    for (int k = LINES; k-- > 0;)
        if (has(points, count, k))
            qc_html(f,
                    "<li><svg width=\"26\" height=\"10\"><path class=\"%s\" d=\"M0 5H26\"/><circle class=\"%s\" "
                    "cx=\"13\" cy=\"5\" r=\"%.1f\"/></svg>%s</li>",
                    lines[k].line, lines[k].dot, lines[k].radius, lines[k].words);
    bool marked = false;
    for (size_t i = 0; i < count; i++) marked = marked || points[i].mark;
    if (marked)
        fputs("<li><svg width=\"30\" height=\"16\"><circle class=\"mark\" cx=\"8\" cy=\"8\" r=\"6.5\"/><text "
              "class=\"marktext\" x=\"22\" y=\"12\" text-anchor=\"middle\">1</text></svg>where error enters, the worst "
              "first (<a href=\"#advice\">causes</a>)</li>",
              f);
    fputs("</ul>\n", f);
}

static double network_across(const struct plot *p, size_t at)
{
    return LEFT + ((double)at + .5) / (double)p->count * (p->width - LEFT - RIGHT);
}

static double wide_enough(double width, size_t count)
{
    return fmax(width, (double)count * 3 + LEFT + RIGHT);
}

/* Draws the axis below a plot. */
static void layer_numbers(FILE *f, const struct plot *p, double base)
{
    double first, step;
    qc_html(f, "<path class=\"axis\" d=\"M%d %.1fH%.0f\"/>", LEFT, base + .5, p->width - RIGHT);
    qc_html_ticks(&first, &step, 0, fmax(2, (double)p->count), p->width > 500 ? 12 : 5);
    size_t every = (size_t)fmax(1, step);
    for (size_t at = 0; at < p->count; at += every)
        qc_html(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%zu</text>", network_across(p, at), base + 15,
                p->points[at].number);
    qc_html(
        f,
        "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">number of the layer, in the order of the network</text>\n",
        LEFT + (p->width - LEFT - RIGHT) / 2, base + 30);
}

static double network_up(const struct plot *p, double db)
{
    return TOP + (p->hi - fmax(p->lo, fmin(db, p->hi))) / (p->hi - p->lo) * UPPER;
}

static double distance(const struct qc_network_point *p)
{
    return log10(fmax(1 - p->cosine, 1e-9));
}

static double down(const struct plot *p, double v)
{
    return TOP + UPPER + SPACE + (p->far - v) / (p->far - p->close) * LOWER;
}

static struct plot network_extent(const struct qc_network_point *points, size_t count, double width)
{
    struct plot p = {
        .lo = 0, .hi = 10, .close = (double)INFINITY, .far = -(double)INFINITY, .points = points, .count = count};
    for (size_t i = 0; i < count; i++) {
        for (int k = 0; k < LINES; k++) {
            double v = value_of(&points[i], k);
            if (!isfinite(v)) continue;
            p.lo = fmin(p.lo, v);
            p.hi = fmax(p.hi, v);
        }
        if (!isfinite(points[i].cosine)) continue;
        p.close = fmin(p.close, distance(&points[i]));
        p.far = fmax(p.far, distance(&points[i]));
    }
    p.lo = floor(p.lo / 10) * 10;
    p.hi = ceil(p.hi / 10) * 10;
    p.close = isfinite(p.close) ? floor(p.close) : -1;
    p.far = fmax(p.close + 1, isfinite(p.far) ? ceil(p.far) : 0);
    p.width = wide_enough(width, count);
    return p;
}

static void axes(FILE *f, const struct plot *p)
{
    double first, step;
    qc_html(f, "<text x=\"4\" y=\"12\">SQNR, dB</text><text x=\"4\" y=\"%d\">1 − cosine</text>\n",
            TOP + UPPER + SPACE - 10);
    qc_html_ticks(&first, &step, p->lo, p->hi, 6);
    for (double v = first; v <= p->hi + step * 1e-9; v += step)
        qc_html(f,
                "<path class=\"grid\" d=\"M%d %.1fH%.0f\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f</text>",
                LEFT, network_up(p, v), p->width - RIGHT, LEFT - 6, network_up(p, v) + 4, v);
    step = p->far - p->close > 4 ? 2 : 1;
    for (double v = p->close; v <= p->far; v += step) {
        qc_html(f, "<path class=\"grid\" d=\"M%d %.1fH%.0f\"/>", LEFT, down(p, v), p->width - RIGHT);
        qc_html_power(f, LEFT - 6, down(p, v) + 4, v);
    }
    layer_numbers(f, p, TOP + UPPER + SPACE + LOWER);
}

/* Draws a line through known values, with gaps at unknown ones. */
static void line(FILE *f, const struct plot *p, int k)
{
    bool pen = false;
    qc_html(f, "<path class=\"%s\" d=\"", lines[k].line);
    for (size_t i = 0; i < p->count; i++) {
        double v = value_of(&p->points[i], k);
        if (!isnan(v)) qc_html(f, "%s%.1f %.1f", pen ? "L" : "M", network_across(p, i), network_up(p, v));
        pen = !isnan(v);
    }
    fputs("\"/>\n", f);
}

static void point_hint(FILE *f, const struct qc_network_point *t)
{
    qc_html(f, "%s (%s):", t->name, t->op);
    for (int k = LINES; k-- > 0;) {
        const double v = value_of(t, k);
        if (isinf(v) && v > 0)
            qc_html(f, " %s exact,", lines[k].hint);
        else if (!isnan(v))
            qc_html(f, " %s %s dB,", lines[k].hint, QC_FIXED(v, 2));
    }
    qc_html(f, " cosine %s", QC_FIXED(t->cosine, 6));
}

static void points(FILE *f, const struct plot *p)
{
    double last = -(double)INFINITY; /* the last mark with its number below */
    for (size_t i = 0; i < p->count; i++) {
        const struct qc_network_point *t = &p->points[i];
        double x = network_across(p, i), y = network_up(p, t->sqnr_db);
        qc_html(f, "<a href=\"#L%zu\" tabindex=\"-1\" data-x=\"%.1f\"><title>", t->number, x);
        point_hint(f, t);
        fputs("</title>", f);
        for (int k = p->count > DOTTED_MAX ? LINES - 1 : 0; k < LINES; k++) {
            double v = value_of(t, k);
            if (!isnan(v))
                qc_html(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", lines[k].dot, x,
                        network_up(p, v), lines[k].radius);
        }
        if (isfinite(t->cosine))
            qc_html(f, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.6\"/>", x, down(p, distance(t)));
        fputs("</a>\n", f);
        if (!t->mark) continue;
        const bool below = y + 20 < TOP + UPPER && x - last > 16; /* numbers of neighbours must not touch */
        if (below) last = x;
        qc_html(f,
                "<circle class=\"mark\" cx=\"%.1f\" cy=\"%.1f\" r=\"7\"/><text class=\"marktext\" x=\"%.1f\" "
                "y=\"%.1f\" text-anchor=\"middle\">%d</text>\n",
                x, y, x, below ? y + 20 : y - 11, t->mark);
    }
}

static void network(FILE *f, const struct qc_network_point *all, size_t count, double width, const char *css)
{
    struct plot p = network_extent(all, count, width);
    int height = TOP + UPPER + SPACE + LOWER + BOTTOM;
    qc_html(f,
            "<svg class=\"points %s\" width=\"%.0f\" height=\"%d\" viewBox=\"0 0 %.0f %d\" role=\"group\" "
            "aria-label=\"Error of each tensor along the network\">\n",
            css, p.width, height, p.width, height);
    axes(f, &p);
    for (int k = 0; k < LINES; k++)
        if (has(all, count, k)) line(f, &p, k);
    points(f, &p);
    fputs("</svg>\n", f);
}

void qc_chart_network(FILE *f, const struct qc_network_point *points, size_t count)
{
    enum { WIDE = 1072, NARROW = 366 };
    if (!count) return;
    if (wide_enough(WIDE, count) > WIDE) { /* too wide for any window: one plot that scrolls */
        network(f, points, count, WIDE, "long");
        return;
    }
    network(f, points, count, WIDE, "wide");
    network(f, points, count, NARROW, "narrow");
}

/* Height of the plot of shares, from 1 down to the least by powers of ten. */
enum { SHARES = 150, STEP_LINES = 3 };

static double share_up(double share, double least)
{
    return TOP + log10(share) / least * SHARES;
}

/* A share of 0 is drawn on the axis. */
static void share_line(FILE *f, const struct plot *p, int k, double least)
{
    static const char *const css[STEP_LINES] = {"line", "line2", "line3"};
    bool pen = false;
    qc_html(f, "<path class=\"%s\" d=\"", css[k]);
    for (size_t i = 0; i < p->count; i++) {
        double v = p->points[i].apart[k];
        if (!isnan(v))
            qc_html(f, "%s%.1f %.1f", pen ? "L" : "M", network_across(p, i), share_up(fmax(v, pow(10, least)), least));
        pen = !isnan(v);
    }
    fputs("\"/>\n", f);
}

static void share_points(FILE *f, const struct plot *p, double least)
{
    static const char *const css[STEP_LINES] = {"dot", "dot2", "dot3"};
    for (size_t i = 0; i < p->count; i++) {
        const struct qc_network_point *t = &p->points[i];
        if (isnan(t->apart[0])) continue;
        qc_html(f, "<a href=\"#L%zu\" tabindex=\"-1\"><title>%s", t->number, t->name);
        for (int k = 0; k < STEP_LINES; k++)
            qc_html(f, "%s %d step%s or more: %s", k ? "," : ":", k + 1, k ? "s" : "", QC_PERCENT(t->apart[k]));
        fputs("</title>", f);
        for (int k = STEP_LINES; k-- > 0;)
            qc_html(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"2.8\"/>", css[k], network_across(p, i),
                    share_up(fmax(t->apart[k], pow(10, least)), least));
        fputs("</a>\n", f);
    }
}

void qc_chart_steps(FILE *f, const struct qc_network_point *all, size_t count, double width, const char *css)
{
    struct plot p = {.points = all, .count = count, .width = wide_enough(width, count)};
    double least = -1;
    int height = TOP + SHARES + BOTTOM;
    for (size_t i = 0; i < count; i++)
        for (int k = 0; k < STEP_LINES; k++)
            if (all[i].apart[k] > 0) least = fmin(least, floor(log10(all[i].apart[k])));
    least -= 1; /* the axis means 0 */
    qc_html(f,
            "<svg class=\"points %s\" width=\"%.0f\" height=\"%d\" viewBox=\"0 0 %.0f %d\" role=\"group\" "
            "aria-label=\"Elements that are apart, along the network\">\n",
            css, p.width, height, p.width, height);
    qc_html(f, "<text x=\"4\" y=\"12\">share of the elements</text>\n");
    for (double v = 0; v > least; v -= least < -5 ? 2 : 1) {
        double y = TOP + v / least * SHARES;
        qc_html(f, "<path class=\"grid\" d=\"M%d %.1fH%.0f\"/>", LEFT, y, p.width - RIGHT);
        if (v > -3)
            qc_html(f, "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%.0f %%</text>", LEFT - 6, y + 4,
                    100 * pow(10, v));
        else
            qc_html_power(f, LEFT - 6, y + 4, v);
    }
    qc_html(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">none</text>", LEFT - 6, TOP + SHARES + 4);
    layer_numbers(f, &p, TOP + SHARES);
    for (int k = STEP_LINES; k-- > 0;) share_line(f, &p, k, least);
    share_points(f, &p, least);
    fputs("</svg>\n", f);
}

void qc_chart_interval(FILE *f, const struct qc_report *r)
{
    enum { WIDE = 300, TALL = 66, NAME = 56, END = 290 };
    double lo = fmin(r->fp32_low, r->int8_low), hi = fmax(r->fp32_high, r->int8_high);
    if (!r->metric || !isfinite(lo) || !isfinite(hi) || !(lo < hi)) return;
    const double low[2] = {r->fp32_low, r->int8_low}, high[2] = {r->fp32_high, r->int8_high},
                 at[2] = {r->fp32, r->int8};
    const char *const names[2] = {"fp32", qc_report_type(r)};
    static const char *const line[2] = {"line", "line2"}, *const dot[2] = {"dot", "dot2"};
    double pad = (hi - lo) * .06, unit = (END - NAME - 8) / (hi - lo + 2 * pad), first, step;
    lo -= pad;
    hi += pad;
    qc_html(f,
            "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>Accuracy with 95 %% "
            "intervals</title>",
            WIDE, TALL, WIDE, TALL);
    qc_html_ticks(&first, &step, 100 * lo, 100 * hi, 5);
    for (double v = first; v <= 100 * hi; v += step) {
        double x = NAME + 8 + (v / 100 - lo) * unit;
        qc_html(
            f, "<path class=\"grid\" d=\"M%.1f 4V46\"/><text x=\"%.1f\" y=\"60\" text-anchor=\"middle\">%.*f %%</text>",
            x, x, step < 1 ? 1 : 0, v);
    }
    for (int i = 0; i < 2; i++) {
        double y = 14 + 20 * i, x = NAME + 8 + (at[i] - lo) * unit;
        qc_html(f,
                "<text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">%s</text><path class=\"%s\" "
                "style=\"stroke-dasharray:none;stroke-width:2\" d=\"M%.1f %.1fH%.1f\"/><circle class=\"%s\" "
                "cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>",
                NAME, y + 4, names[i], line[i], NAME + 8 + (low[i] - lo) * unit, y, NAME + 8 + (high[i] - lo) * unit,
                dot[i], x, y);
    }
    fputs("</svg>\n", f);
}
