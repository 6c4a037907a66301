// SPDX-License-Identifier: Apache-2.0
/* Plots of single layers. */
#include "export/report/report_charts.h"

#include <math.h>
#include <string.h>

#include "export/report/html.h"

/* Size of a plot, with margins for the axes. */
enum { WIDTH = 330, HEIGHT = 172, LEFT = 46, RIGHT = 10, TOP = 10, BOTTOM = 36 };

static const double inner_width = WIDTH - LEFT - RIGHT, inner_height = HEIGHT - TOP - BOTTOM;

struct axis {
    double lo, hi; /* lo < hi */
};

static double across(const struct axis *a, double v)
{
    return LEFT + (v - a->lo) / (a->hi - a->lo) * inner_width;
}

static double up(const struct axis *a, double v)
{
    return TOP + inner_height - (v - a->lo) / (a->hi - a->lo) * inner_height;
}

static struct axis widened(double lo, double hi)
{
    if (!(lo < hi)) return (struct axis){.lo = lo - 1, .hi = lo + 1};
    return (struct axis){.lo = lo, .hi = hi};
}

static void begin(FILE *f, const char *title, const char *name)
{
    qc_html(f, "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>%s %s</title>\n", WIDTH,
            HEIGHT, WIDTH, HEIGHT, title, name);
}

static void axis_x(FILE *f, const struct axis *x, const char *label)
{
    double first, step;
    qc_html_ticks(&first, &step, x->lo, x->hi, 5);
    qc_html(f, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>", LEFT, TOP + inner_height + .5, WIDTH - RIGHT);
    for (double v = first; v <= x->hi + step * 1e-9; v += step) {
        qc_html(f,
                "<path class=\"axis\" d=\"M%.1f %.1fv4\"/><text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%s</text>",
                across(x, v), TOP + inner_height, across(x, v), TOP + inner_height + 16,
                QC_SHORT(fabs(v) < step * 1e-9 ? 0 : v));
    }
    qc_html(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%s</text>\n", LEFT + inner_width / 2, HEIGHT - 4,
            label);
}

static void tick_y(FILE *f, double at, double v, bool power)
{
    qc_html(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/><text x=\"%d\" y=\"%.1f\" text-anchor=\"end\">", LEFT, at,
            WIDTH - RIGHT, LEFT - 6, at + 4);
    if (power && v >= 4)
        qc_html(f, "10<tspan dy=\"-4\" font-size=\"8\">%.0f</tspan>", v);
    else if (power)
        qc_html(f, "%.0f", pow(10, v));
    else
        qc_html(f, "%s", QC_SHORT(v));
    fputs("</text>", f);
}

static void axis_y(FILE *f, const struct axis *y)
{
    double first, step;
    qc_html_ticks(&first, &step, y->lo, y->hi, 4);
    for (double v = first; v <= y->hi + step * 1e-9; v += step)
        tick_y(f, up(y, v), fabs(v) < step * 1e-9 ? 0 : v, false);
}

static void vertical(FILE *f, const char *css, double x)
{
    qc_html(f, "<path class=\"%s\" d=\"M%.1f %dV%.1f\"/>", css, x, TOP, TOP + inner_height);
}

/* Draws the bars inside [lo, hi], or those outside, as one path. */
static void bars(FILE *f, const struct qc_report_histogram *h, const struct axis *x, const struct axis *y,
                 const char *css, bool inside, double lo, double hi)
{
    double width = (h->hi - h->lo) / (double)h->bar_count;
    qc_html(f, "<path class=\"%s\" d=\"", css);
    for (size_t i = 0; i < h->bar_count; i++) {
        double from = h->lo + width * (double)i, to = from + width, middle = (from + to) / 2;
        if (!h->bars[i] || (middle >= lo && middle <= hi) != inside) continue;
        double left = across(x, from), top = up(y, log10((double)h->bars[i]));
        top = fmin(top, TOP + inner_height - 1.5); /* a bar of a single value is visible */
        qc_html(f, "M%.1f %.1fV%.1fH%.1fV%.1fz", left, TOP + inner_height, top, across(x, to) - .6, TOP + inner_height);
    }
    fputs("\"/>", f);
}

void qc_chart_histogram(FILE *f, const struct qc_layer *l)
{
    const struct qc_report_histogram *h = l->histogram;
    double most = 1, lo = isfinite(l->chosen_min) ? l->chosen_min : h->lo,
           hi = isfinite(l->chosen_max) ? l->chosen_max : h->hi;
    for (size_t i = 0; i < h->bar_count; i++) most = fmax(most, (double)h->bars[i]);
    struct axis x = widened(fmin(h->lo, lo), fmax(h->hi, hi)), y = {.lo = 0, .hi = log10(most) + .3};
    begin(f, "How many values of each size:", l->name);
    qc_html(f, "<rect class=\"span\" x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%.1f\"/>", across(&x, lo), TOP,
            fmax(1, across(&x, hi) - across(&x, lo)), inner_height);
    double step = y.hi > 4 ? 2 : 1;
    for (double v = 0; v <= y.hi; v += step) tick_y(f, up(&y, v), v, true);
    bars(f, h, &x, &y, "bars", true, lo, hi);
    bars(f, h, &x, &y, "bars out", false, lo, hi);
    vertical(f, "limit", across(&x, lo));
    vertical(f, "limit", across(&x, hi));
    axis_x(f, &x, "value");
    fputs("</svg>\n", f);
}

static double threshold(const struct qc_layer_tried *t)
{
    return fmax(-t->min, t->max);
}

/* Draws ticks at powers of ten, about five at most. */
static void axis_log(FILE *f, const struct axis *y)
{
    double step = fmax(1, ceil((y->hi - y->lo) / 5));
    for (double v = ceil(y->lo); v <= y->hi; v += step) {
        qc_html(f, "<path class=\"grid\" d=\"M%d %.1fH%d\"/>", LEFT, up(y, v), WIDTH - RIGHT);
        qc_html_power(f, LEFT - 6, up(y, v) + 4, v);
    }
}

/* Returns the number that is drawn for a range, admitted or not. If it is not finite, nothing is drawn. */
static double worth(const struct qc_layer_tried *t)
{
    return isfinite(t->objective) ? t->objective : t->refused;
}

static void take_in(struct axis *x, struct axis *y, const struct qc_layer_tried *t)
{
    if (!isfinite(worth(t))) return;
    x->lo = fmin(x->lo, threshold(t));
    x->hi = fmax(x->hi, threshold(t));
    y->lo = fmin(y->lo, worth(t));
    y->hi = fmax(y->hi, worth(t));
}

static struct qc_layer_tried choice_of(const struct qc_layer *l)
{
    return (struct qc_layer_tried){.min = l->chosen_min,
                                   .max = l->chosen_max,
                                   .objective = l->solver.objective,
                                   .refused = (double)NAN};
}

/* Sets both axes so that they contain the curve and the chosen range. */
static void extent(struct axis *x, struct axis *y, const struct qc_layer *l)
{
    const struct qc_layer_tried chosen = choice_of(l);
    *x = *y = (struct axis){.lo = (double)INFINITY, .hi = -(double)INFINITY};
    for (size_t i = 0; i < l->solver.curve_count; i++) take_in(x, y, &l->solver.curve[i]);
    take_in(x, y, &chosen);
    x->lo = fmin(x->lo, threshold(&chosen)); /* also if its objective is not finite */
    x->hi = fmax(x->hi, threshold(&chosen));
}

bool qc_chart_has_curve(const struct qc_layer *l)
{
    struct axis x = {.lo = (double)INFINITY, .hi = -(double)INFINITY}, y = x;
    for (size_t i = 0; i < l->solver.curve_count; i++) take_in(&x, &y, &l->solver.curve[i]);
    return x.lo < x.hi;
}

struct curve {
    struct axis x, y;
    bool powers;
};

static double height(const struct curve *c, double objective)
{
    return up(&c->y, c->powers ? log10(objective) : objective);
}

/* Draws lines between neighbours: those with both ranges admitted, or the others. */
static void curve_line(FILE *f, const struct curve *c, const struct qc_layer_solver *s, bool admitted)
{
    qc_html(f, "<path class=\"%s\" d=\"", admitted ? "line" : "line refused");
    for (size_t i = 1; i < s->curve_count; i++) {
        const struct qc_layer_tried *from = &s->curve[i - 1], *to = &s->curve[i];
        if (!isfinite(worth(from)) || !isfinite(worth(to))) continue;
        if ((isfinite(from->objective) && isfinite(to->objective)) != admitted) continue;
        qc_html(f, "M%.1f %.1fL%.1f %.1f", across(&c->x, threshold(from)), height(c, worth(from)),
                across(&c->x, threshold(to)), height(c, worth(to)));
    }
    fputs("\"/>", f);
}

static void curve_dot(FILE *f, const struct curve *c, const struct qc_layer_tried *t, const char *css, double radius)
{
    if (isfinite(worth(t)))
        qc_html(f, "<circle class=\"%s\" cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\"/>", css, across(&c->x, threshold(t)),
                height(c, worth(t)), radius);
}

/* The axis is logarithmic if the objectives span a factor of 30 or more. */
void qc_chart_curve(FILE *f, const struct qc_layer *l)
{
    const struct qc_layer_solver *s = &l->solver;
    const struct qc_layer_tried chosen = choice_of(l);
    struct curve c;
    extent(&c.x, &c.y, l);
    c.powers = c.y.lo > 0 && c.y.hi > 30 * c.y.lo;
    c.y = c.powers ? (struct axis){.lo = floor(log10(c.y.lo)), .hi = ceil(log10(c.y.hi))} : widened(c.y.lo, c.y.hi);
    begin(f, "What the solver saw:", l->name);
    if (c.powers)
        axis_log(f, &c.y);
    else
        axis_y(f, &c.y);
    curve_line(f, &c, s, false);
    curve_line(f, &c, s, true);
    vertical(f, "limit", across(&c.x, fmin(fmax(threshold(&chosen), c.x.lo), c.x.hi)));
    if (s->runner_up) curve_dot(f, &c, s->runner_up, "dot2", 3);
    curve_dot(f, &c, &chosen, "dot", 4);
    axis_x(f, &c.x, "threshold: the larger magnitude of the range");
    fputs("</svg>\n", f);
}

bool qc_chart_has_refused(const struct qc_layer *l)
{
    for (size_t i = 0; i < l->solver.curve_count; i++)
        if (!isfinite(l->solver.curve[i].objective) && isfinite(l->solver.curve[i].refused)) return true;
    return false;
}

void qc_chart_channels(FILE *f, const struct qc_layer *l)
{
    double lo = 0, hi = 0;
    for (size_t k = 0; k < l->channel_count; k++) {
        lo = fmin(lo, (double)l->channel_low[k]);
        hi = fmax(hi, (double)l->channel_high[k]);
    }
    struct axis x = {.lo = -.5, .hi = (double)l->channel_count - .5}, y = widened(lo, hi);
    double width = fmax(.5, fmin(12, inner_width / (double)l->channel_count * .7));
    begin(f, "Least and largest weight of each channel:", l->name);
    axis_y(f, &y);
    qc_html(f, "<path class=\"line\" style=\"stroke-width:%.2f\" d=\"", width);
    for (size_t k = 0; k < l->channel_count; k++) {
        double low = up(&y, (double)l->channel_low[k]), high = up(&y, (double)l->channel_high[k]);
        qc_html(f, "M%.1f %.1fV%.1f", across(&x, (double)k), fmax(low, high + .7), high);
    }
    fputs("\"/>", f);
    if (y.lo < 0 && y.hi > 0) qc_html(f, "<path class=\"axis\" d=\"M%d %.1fH%d\"/>", LEFT, up(&y, 0), WIDTH - RIGHT);
    double first, step;
    qc_html_ticks(&first, &step, 0, fmax(1, (double)l->channel_count - 1), 5);
    step = fmax(1, step);
    for (double v = 0; v < (double)l->channel_count; v += step)
        qc_html(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"middle\">%.0f</text>", across(&x, v),
                TOP + inner_height + 16, v);
    qc_html(f, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">channel</text></svg>\n", LEFT + inner_width / 2,
            HEIGHT - 4);
}

static bool beats(const struct qc_placement_point *a, const struct qc_placement_point *b)
{
    return a->ms <= b->ms && a->sqnr_db >= b->sqnr_db && (a->ms < b->ms || a->sqnr_db > b->sqnr_db);
}

/* True if no other placement is better in both latency and SQNR. */
static bool is_best(const struct qc_placement_point *points, size_t count, size_t k)
{
    for (size_t i = 0; i < count; i++)
        if (beats(&points[i], &points[k])) return false;
    return true;
}

static double at_sqnr(const struct axis *y, double sqnr_db)
{
    return up(y, fmax(y->lo, fmin(sqnr_db, y->hi)));
}

/* Draws the frontier from fast to slow, as steps. */
static void frontier(FILE *f, const struct axis *x, const struct axis *y, const struct qc_placement_point *points,
                     size_t count)
{
    double last = -(double)INFINITY;
    fputs("<path class=\"line\" d=\"", f);
    for (;;) {
        size_t next = count;
        for (size_t i = 0; i < count; i++)
            if (is_best(points, count, i) && points[i].ms > last && (next == count || points[i].ms < points[next].ms))
                next = i;
        if (next == count) break;
        qc_html(f, isinf(last) ? "M%.1f %.1f" : "H%.1fV%.1f", across(x, points[next].ms),
                at_sqnr(y, points[next].sqnr_db));
        last = points[next].ms;
    }
    fputs("\"/>", f);
}

void qc_chart_placements(FILE *f, const struct qc_placement_point *points, size_t count)
{
    struct axis x = {.lo = (double)INFINITY, .hi = -(double)INFINITY}, y = x;
    for (size_t i = 0; i < count; i++) {
        x.lo = fmin(x.lo, points[i].ms);
        x.hi = fmax(x.hi, points[i].ms);
        if (!isfinite(points[i].sqnr_db)) continue;
        y.lo = fmin(y.lo, points[i].sqnr_db);
        y.hi = fmax(y.hi, points[i].sqnr_db);
    }
    const double wide = fmax((x.hi - x.lo) / 12, x.hi * 1e-3), tall = fmax((y.hi - y.lo) / 8, .5);
    x = (struct axis){.lo = fmax(0, x.lo - wide), .hi = x.hi + wide}; /* margins keep marks off the axes */
    y = (struct axis){.lo = y.lo - tall, .hi = y.hi + tall};
    begin(f, "SQNR of the outputs over latency", "");
    axis_y(f, &y);
    qc_html(f, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">dB</text>", LEFT - 6, HEIGHT - BOTTOM + 16);
    frontier(f, &x, &y, points, count);
    for (int named = 0; named < 2; named++)
        for (size_t i = 0; i < count; i++)
            if ((points[i].css != NULL) == named)
                qc_html(f, "<path class=\"%s\" d=\"M%.1f %.1f%s\"/>", named ? points[i].css : "tried",
                        across(&x, points[i].ms), at_sqnr(&y, points[i].sqnr_db),
                        named ? points[i].shape : "m-2.5 0a2.5 2.5 0 1 0 5 0a2.5 2.5 0 1 0-5 0z");
    axis_x(f, &x, "latency, ms");
    fputs("</svg>\n", f);
}

void qc_chart_accumulator(FILE *f, const struct qc_layer *l, unsigned limit)
{
    enum { TALL = 76 };
    unsigned most = limit > l->accumulator_bits ? limit : l->accumulator_bits;
    double unit = inner_width / most;
    qc_html(
        f,
        "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>Bits of the accumulator</title>\n",
        WIDTH, TALL, WIDTH, TALL);
    qc_html(f,
            "<text x=\"%d\" y=\"22\" text-anchor=\"end\">proved</text><path class=\"%s\" d=\"M%d "
            "12h%.1fv13h-%.1fz\"/><text class=\"strong\" x=\"%.1f\" y=\"22\">%u</text>",
            LEFT - 6, l->accumulator_bits > limit ? "bars out" : "bars", LEFT, unit * l->accumulator_bits,
            unit * l->accumulator_bits, LEFT + unit * l->accumulator_bits + 4, l->accumulator_bits);
    if (l->accumulator_bits_seen)
        qc_html(f,
                "<text x=\"%d\" y=\"41\" text-anchor=\"end\">seen</text><path class=\"bars\" d=\"M%d "
                "31h%.1fv13h-%.1fz\"/><text class=\"strong\" x=\"%.1f\" y=\"41\">%u</text>",
                LEFT - 6, LEFT, unit * l->accumulator_bits_seen, unit * l->accumulator_bits_seen,
                LEFT + unit * l->accumulator_bits_seen + 4, l->accumulator_bits_seen);
    qc_html(f, "<path class=\"limit\" d=\"M%.1f 6V50\"/><path class=\"axis\" d=\"M%d 50.5H%d\"/>", LEFT + unit * limit,
            LEFT, WIDTH - RIGHT);
    for (unsigned b = 0; b <= most; b += 8)
        qc_html(f, "<text x=\"%.1f\" y=\"64\" text-anchor=\"middle\">%u</text>", LEFT + unit * b, b);
    fputs("</svg>\n", f);
}
