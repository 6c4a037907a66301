// SPDX-License-Identifier: Apache-2.0
#include "export/report/report_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/report_charts.h"
#include "export/report/type_word.h"

struct column {
    const char *title, *hint, *css;            /* css: "n" a number; "more" hidden in narrow windows */
    double (*value)(const struct qc_layer *l); /* NaN: unknown */
    void (*put)(FILE *f, double v);
};

static double sqnr(const struct qc_layer *l)
{
    return l->sqnr_db;
}
static double alone(const struct qc_layer *l)
{
    return l->alone_db;
}
static double cosine(const struct qc_layer *l)
{
    return l->cosine;
}
static double clipped(const struct qc_layer *l)
{
    return l->clipped_fraction;
}
static double lost(const struct qc_layer *l)
{
    return l->lost_fraction;
}
static double bits(const struct qc_layer *l)
{
    return l->accumulator_bits ? (double)l->accumulator_bits : (double)NAN;
}

static void decibel(FILE *f, double v)
{
    qc_html_fixed(f, v, 2);
}
static void near_one(FILE *f, double v)
{
    qc_html_fixed(f, v, 5);
}
static void whole(FILE *f, double v)
{
    qc_html_fixed(f, v, 0);
}

static const struct column columns[] = {
    {"SQNR, dB", "signal to quantization noise ratio of the tensor, with everything before it quantized too", "n", sqnr,
     decibel},
    {"alone, dB", "SQNR from rounding this tensor alone, with everything before it exact", "n more", alone, decibel},
    {"cosine", "cosine similarity of the quantized tensor and the float one; 1 is equal", "n more", cosine, near_one},
    {"clipped", "share of the values more than half a step outside the chosen range", "n more", clipped,
     qc_html_percent},
    {"lost", "share of the non-zero values that round to zero", "n more lost", lost, qc_html_percent},
    {"acc. bits", "bits that the accumulator needs at most, whatever the data; sign included", "n more", bits, whole},
};

enum { COLUMNS = sizeof columns / sizeof *columns };

static int rank_of(const struct qc_report *r, size_t layer)
{
    for (size_t i = 0; i < r->suggestion_count; i++)
        if (r->suggestions[i].layer == layer) return (int)i + 1;
    return 0;
}

static void row(FILE *f, const struct qc_report *r, size_t i)
{
    const struct qc_layer *l = &r->layers[i];
    qc_html(f, "<tr data-kind=\"%s\"%s><td class=\"n\" data-v=\"%zu\">%zu</td><td class=\"name\"><a href=\"#L%zu\">",
            l->kind, rank_of(r, i) ? " class=\"hot\"" : "", i + 1, i + 1, i + 1);
    qc_html_name(f, *l->name ? l->name : "(no name)");
    fputs("</a></td>", f);
    for (size_t c = 0; c < COLUMNS; c++) {
        double v = columns[c].value(l);
        if (isfinite(v))
            qc_html(f, "<td class=\"%s\" data-v=\"%.9g\">", columns[c].css, v);
        else
            qc_html(f, "<td class=\"%s\" data-v=\"%s\">", columns[c].css, isinf(v) ? v > 0 ? "1e9" : "-1e9" : "");
        columns[c].put(f, v);
        fputs("</td>", f);
    }
    fputs("<td class=\"op\">", f);
    qc_html_text(f, l->op);
    qc_html(f, "</td><td class=\"more kind\">%s</td><td class=\"more\">", l->kind);
    qc_html_text(f, qc_type_word(l->type));
    fputs("</td></tr>\n", f);
}

void qc_html_layer_table(FILE *f, const struct qc_report *r)
{
    fputs("<div class=\"tools\"><input id=\"filter\" type=\"search\" placeholder=\"Filter: name, op, type\" "
          "aria-label=\"Filter the table of layers\">"
          "<select id=\"kind\" aria-label=\"Kind\"><option value=\"\">all</option><option "
          "value=\"activation\">activations</option>"
          "<option value=\"weight\">weights</option></select><span class=\"muted\" id=\"shown\" "
          "role=\"status\"></span></div>\n"
          "<div class=\"layers\" tabindex=\"0\" role=\"region\" aria-label=\"Layers\"><table "
          "id=\"layers\"><thead><tr><th class=\"n\" scope=\"col\">#</th><th scope=\"col\">tensor</th>",
          f);
    for (size_t c = 0; c < COLUMNS; c++)
        qc_html(f, "<th class=\"%s\" scope=\"col\">%s</th>", columns[c].css, columns[c].title);
    fputs("<th scope=\"col\">op</th><th class=\"more kind\" scope=\"col\">kind</th><th "
          "class=\"more\" scope=\"col\">type</th></tr></thead><tbody>\n",
          f);
    for (size_t i = 0; i < r->layer_count; i++) row(f, r, i);
    fputs("</tbody></table></div>\n<p class=\"none\" hidden>No layer matches the filter.</p>\n<details "
          "class=\"meanings\"><summary>What the columns mean</summary><dl>",
          f);
    for (size_t c = 0; c < COLUMNS; c++) qc_html(f, "<dt>%s</dt><dd>%s</dd>", columns[c].title, columns[c].hint);
    fputs("</dl></details>\n", f);
}

static void term(FILE *f, const char *name)
{
    qc_html(f, "<dt>%s</dt><dd>", name);
}

/* Writes the bounds of the chosen range and its objective. */
static void solver(FILE *f, const struct qc_layer_solver *s, const char *method)
{
    if (isfinite(s->known_min) || isfinite(s->known_max)) {
        term(f, "possible range");
        qc_html_short(f, s->known_min);
        fputs(" to ", f);
        qc_html_short(f, s->known_max);
        fputs(": guaranteed by the operators before it, for any input</dd>", f);
    }
    if (!isfinite(s->objective)) return;
    term(f, "objective");
    qc_html_short(f, s->objective);
    fputs(" for the chosen range", f);
    if (isfinite(s->objective_minmax)) {
        fputs(", ", f);
        qc_html_short(f, s->objective_minmax);
        fputs(" for the observed extremes", f);
    }
    fputs("; the error that ", f);
    qc_html_text(f, method);
    fputs(" minimizes, over ", f);
    qc_html_count(f, s->candidates);
    qc_html(f, " range%s</dd>", s->candidates == 1 ? "" : "s");
}

/* Writes how the integers of a weight were chosen. */
static void rounding(FILE *f, const struct qc_layer *l)
{
    const struct qc_report_rounding *r = l->rounding;
    if (r) {
        term(f, "rounding");
        qc_html_text(f, r->method);
        if (r->reason) {
            fputs(": ", f);
            qc_html_text(f, r->reason);
        }
        if (r->judged) {
            qc_html(f, "; mean squared error of its output, on %s: ", r->held ? "held-out samples" : "all samples");
            qc_html_short(f, r->error_nearest);
            fputs(" to the nearest", f);
            if (strcmp(r->method, "compensated") == 0) {
                fputs(", now ", f);
                qc_html_short(f, r->error);
                qc_html(f, " (%zu of %zu outputs stay nearest)", r->nearest_outputs, r->outputs);
            }
        }
        fputs("</dd>", f);
    }
    if (r && r->bias_corrected) {
        term(f, "bias corrected");
        fputs("by ", f);
        qc_html_short(f, r->bias_rms);
        fputs(" (root mean square), ", f);
        qc_html_short(f, r->bias_max);
        fputs(" at most</dd>", f);
    }
    if (!l->scales_raised) return;
    term(f, "for the accumulator");
    qc_html(f, "%zu scale%s raised, by a factor of ", l->scales_raised, l->scales_raised == 1 ? "" : "s");
    qc_html_short(f, l->scale_raise_max);
    fputs(" at most</dd>", f);
}

/* Writes the errors that were measured. */
static void errors(FILE *f, const struct qc_layer *l)
{
    if (!isnan(l->sqnr_db)) {
        term(f, "SQNR");
        qc_html_fixed(f, l->sqnr_db, 2);
        fputs(" dB, all before it quantized too; cosine ", f);
        qc_html_fixed(f, l->cosine, 6);
        fputs("</dd>", f);
    }
    if (!isnan(l->alone_db)) {
        term(f, "its own rounding");
        qc_html_fixed(f, l->alone_db, 2);
        fputs(" dB, all before it exact</dd>", f);
    }
    if (isnan(l->isolated_db)) return;
    term(f, "on the outputs");
    qc_html_fixed(f, l->isolated_db, 2);
    fputs(" dB, with only this layer quantized</dd>", f);
}

/* Writes how --method auto chose an observer. */
static void choice(FILE *f, const struct qc_report_choice *c)
{
    if (c && c->steps)
        fputs(" (all values are multiples of one step, which is the scale)", f);
    else if (c && c->trial && c->trial->gain_db > 0)
        qc_html(f, " (%.2f dB less noise of the outputs than with mse)", c->trial->gain_db);
}

static void numbers(FILE *f, const struct qc_layer *l)
{
    fputs("<dl>", f);
    errors(f, l);
    if (l->node) {
        term(f, strcmp(l->kind, "weight") == 0 ? "read by" : "made by");
        qc_html_text(f, l->node);
        fputs("</dd>", f);
    }
    term(f, "scale, zero point");
    if (l->count == 1) {
        qc_html_short(f, (double)l->scale[0]);
        qc_html(f, ", %" PRId32, l->zero_point[0]);
    } else {
        float low = l->scale[0], high = l->scale[0];
        for (size_t k = 1; k < l->count; k++) {
            low = fminf(low, l->scale[k]);
            high = fmaxf(high, l->scale[k]);
        }
        qc_html(f, "%zu scales along axis %d%s, ", l->count, l->axis, l->block ? " in blocks" : "");
        qc_html_short(f, (double)low);
        fputs(" to ", f);
        qc_html_short(f, (double)high);
    }
    fputs("</dd>", f);
    term(f, "observed");
    qc_html_short(f, l->observed_min);
    fputs(" to ", f);
    qc_html_short(f, l->observed_max);
    fputs(", ", f);
    qc_html_count(f, l->observed_count);
    fputs(" values", f);
    if (l->observed_nan || l->observed_inf) {
        fputs(", <b class=\"bad\">", f);
        qc_html_count(f, l->observed_nan);
        fputs(" NaN, ", f);
        qc_html_count(f, l->observed_inf);
        fputs(" infinite</b>", f);
    }
    fputs("</dd>", f);
    term(f, "chosen range");
    qc_html_short(f, l->chosen_min);
    fputs(" to ", f);
    qc_html_short(f, l->chosen_max);
    fputs(" by ", f);
    qc_html_text(f, l->method);
    choice(f, l->choice);
    fputs("; clipped ", f);
    qc_html_percent(f, l->clipped_fraction);
    fputs("</dd>", f);
    solver(f, &l->solver, l->method);
    rounding(f, l);
    if (!isnan(l->max_abs)) {
        term(f, "largest error");
        qc_html_short(f, l->max_abs);
        fputs("; stored at the lowest or highest level: ", f);
        qc_html_percent(f, l->saturated_fraction);
        fputs("</dd>", f);
    }
    fputs("</dl>\n", f);
}

static void plots(FILE *f, const struct qc_report *r, const struct qc_layer *l)
{
    fputs("<div class=\"plots\">", f);
    if (l->histogram) {
        fputs("<figure>", f);
        qc_chart_histogram(f, l);
        fputs("<figcaption>Values per bar, logarithmic. Shaded: the chosen range; red: beyond it. Exact zeros are left "
              "out: ",
              f);
        qc_html_count(f, l->histogram->zeros);
        fputs(".</figcaption></figure>\n", f);
    } else if (strcmp(l->kind, "activation") == 0) {
        fputs("<p class=\"note\">No histogram: method ", f);
        qc_html_text(f, l->method);
        fputs(" keeps only the extremes.</p>\n", f);
    }
    if (qc_chart_has_curve(l)) {
        fputs("<figure>", f);
        qc_chart_curve(f, l);
        fputs("<figcaption>Objective of ", f);
        qc_html_text(f, l->method);
        fputs(" for the ranges that the solver tried", f);
        if (qc_chart_has_refused(l))
            fputs("; dotted: ranges that are not admitted because their error is too large", f);
        fputs(". The line and the full dot are its choice, found by moving each end of the range too", f);
        fputs(l->solver.runner_up ? "; the open dot is the best of those further away.</figcaption></figure>\n"
                                  : ".</figcaption></figure>\n",
              f);
    }
    if (l->channel_count > 1) {
        fputs("<figure>", f);
        qc_chart_channels(f, l);
        fputs("<figcaption>Least and largest weight of each channel.</figcaption></figure>\n", f);
    }
    if (l->accumulator_bits) {
        fputs("<figure>", f);
        unsigned limit = r->accumulator ? r->accumulator->bits : 32;
        qc_chart_accumulator(f, l, limit);
        qc_html(f, "<figcaption>Bits of the accumulator, sign included; limit %u.</figcaption></figure>\n", limit);
    }
    fputs("</div>\n", f);
}

void qc_html_layer_details(FILE *f, const struct qc_report *r, size_t first, size_t count)
{
    for (size_t i = first; i < first + count; i++) {
        const struct qc_layer *l = &r->layers[i];
        qc_html(f, "<details><summary><span class=\"muted\">%zu</span> ", i + 1);
        qc_html_name(f, *l->name ? l->name : "(no name)");
        fputs(" <span class=\"muted\">", f);
        qc_html_text(f, l->op);
        qc_html(f, ", %s, ", l->kind);
        qc_html_text(f, qc_type_word(l->type));
        if (isfinite(l->sqnr_db)) qc_html(f, ", %.2f dB", l->sqnr_db);
        qc_html(f, "</span></summary><div class=\"body\" id=\"L%zu\">\n", i + 1);
        numbers(f, l);
        plots(f, r, l);
        fputs("</div></details>\n", f);
    }
}
