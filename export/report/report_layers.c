// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/report.h"
#include "export/report/report_charts.h"
#include "export/report/report_parts.h"
#include "graph/types/dtype.h"

struct column {
    const char *title, *hint, *css;            /* css: "n" a number; "more" hidden in narrow windows */
    size_t offset;                             /* of a double of the layer; NaN: unknown */
    int decimals;                              /* -1: a share, in percent */
    double (*value)(const struct qc_layer *l); /* if there is no such member */
};

static double bits(const struct qc_layer *l)
{
    return l->accumulator_bits ? (double)l->accumulator_bits : (double)NAN;
}

#define MEMBER(m) offsetof(struct qc_layer, m)
static const struct column columns[] = {
    {"SQNR, dB", "signal to quantization noise ratio of the tensor, with everything before it quantized too", "n",
     MEMBER(sqnr_db), 2, NULL},
    {"alone, dB", "SQNR from rounding this tensor alone, with everything before it exact", "n more", MEMBER(alone_db),
     2, NULL},
    {"cosine", "cosine similarity of the quantized tensor and the float one; 1 is equal", "n more", MEMBER(cosine), 5,
     NULL},
    {"clipped", "share of the values more than half a step outside the chosen range", "n more",
     MEMBER(clipped_fraction), -1, NULL},
    {"lost", "share of the non-zero values that round to zero", "n more lost", MEMBER(lost_fraction), -1, NULL},
    {"acc. bits", "bits that the accumulator needs at most, whatever the data; sign included", "n more", 0, 0, bits},
};

enum { COLUMNS = sizeof columns / sizeof *columns };

int qc_report_suggested(const struct qc_report *r, size_t layer)
{
    for (size_t i = 0; i < r->suggestion_count; i++)
        if (r->suggestions[i].layer == layer) return (int)i + 1;
    return 0;
}

static void layer_row(FILE *f, const struct qc_report *r, size_t i)
{
    const struct qc_layer *l = &r->layers[i];
    qc_html(f, "<tr data-kind=\"%s\"", l->kind);
    if (qc_report_suggested(r, i)) fputs(" class=\"hot\"", f);
    qc_html(f, "><td class=\"n\" data-v=\"%zu\">%zu</td><td class=\"name\"><a href=\"#L%zu\">", i + 1, i + 1, i + 1);
    qc_html_name(f, *l->name ? l->name : "(no name)");
    fputs("</a></td>", f);
    for (const struct column *c = columns; c < columns + COLUMNS; c++) {
        const double v = c->value ? c->value(l) : *(const double *)((const char *)l + c->offset);
        if (isfinite(v))
            qc_html(f, "<td class=\"%s\" data-v=\"%.9g\">", c->css, v);
        else
            qc_html(f, "<td class=\"%s\" data-v=\"%s\">", c->css, isinf(v) ? v > 0 ? "1e9" : "-1e9" : "");
        qc_html(f, "%s</td>", c->decimals < 0 ? QC_PERCENT(v) : QC_FIXED(v, c->decimals));
    }
    qc_html(f, "<td class=\"op\">%s</td><td class=\"more kind\">%s</td><td class=\"more\">%s</td></tr>\n", l->op,
            l->kind, qc_type_word(l->type));
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
    for (size_t i = 0; i < r->layer_count; i++) layer_row(f, r, i);
    fputs("</tbody></table></div>\n<p class=\"none\" hidden>No layer matches the filter.</p>\n<details "
          "class=\"meanings\"><summary>What the columns mean</summary><dl>",
          f);
    for (size_t c = 0; c < COLUMNS; c++) qc_html(f, "<dt>%s</dt><dd>%s</dd>", columns[c].title, columns[c].hint);
    fputs("</dl></details>\n", f);
}

/* Writes the bounds of the chosen range and its objective. */
static void solver(FILE *f, const struct qc_layer_solver *s, const char *method)
{
    if (isfinite(s->known_min) || isfinite(s->known_max))
        qc_html(f, "<dt>possible range</dt><dd>%s to %s: guaranteed by the operators before it, for any input</dd>",
                QC_SHORT(s->known_min), QC_SHORT(s->known_max));
    if (!isfinite(s->objective)) return;
    qc_html(f, "<dt>objective</dt><dd>%s for the chosen range", QC_SHORT(s->objective));
    if (isfinite(s->objective_minmax)) qc_html(f, ", %s for the observed extremes", QC_SHORT(s->objective_minmax));
    qc_html(f, "; the error that %s minimizes, over %s range%s</dd>", method, QC_COUNT(s->candidates),
            qc_plural(s->candidates));
}

/* Writes how the integers of a weight were chosen. */
static void rounding(FILE *f, const struct qc_layer *l)
{
    const struct qc_report_rounding *r = l->rounding;
    if (r) {
        qc_html(f, "<dt>rounding</dt><dd>%s", r->method);
        if (r->reason) qc_html(f, ": %s", r->reason);
        if (r->judged)
            qc_html(f, "; mean squared error of its output, on %s: %s to the nearest",
                    r->held ? "held-out samples" : "all samples", QC_SHORT(r->error_nearest));
        if (r->judged && strcmp(r->method, "compensated") == 0)
            qc_html(f, ", now %s (%zu of %zu outputs stay nearest)", QC_SHORT(r->error), r->nearest_outputs,
                    r->outputs);
        fputs("</dd>", f);
    }
    if (r && r->bias_corrected)
        qc_html(f, "<dt>bias corrected</dt><dd>by %s (root mean square), %s at most</dd>", QC_SHORT(r->bias_rms),
                QC_SHORT(r->bias_max));
    if (l->scales_raised)
        qc_html(f, "<dt>for the accumulator</dt><dd>%zu scale%s raised, by a factor of %s at most</dd>",
                l->scales_raised, qc_plural(l->scales_raised), QC_SHORT(l->scale_raise_max));
}

/* Writes the errors that were measured. */
static void errors(FILE *f, const struct qc_layer *l)
{
    if (!isnan(l->sqnr_db))
        qc_html(f, "<dt>SQNR</dt><dd>%s dB, all before it quantized too; cosine %s</dd>", QC_FIXED(l->sqnr_db, 2),
                QC_FIXED(l->cosine, 6));
    if (!isnan(l->alone_db))
        qc_html(f, "<dt>its own rounding</dt><dd>%s dB, all before it exact</dd>", QC_FIXED(l->alone_db, 2));
    if (!isnan(l->isolated_db))
        qc_html(f, "<dt>on the outputs</dt><dd>%s dB, with only this layer quantized</dd>",
                QC_FIXED(l->isolated_db, 2));
}

/* Writes how --method auto chose an observer. */
static void choice(FILE *f, const struct qc_report_choice *c)
{
    if (c && c->steps)
        fputs(" (all values are multiples of one step, which is the scale)", f);
    else if (c && c->trial && c->trial->gain_db > 0)
        qc_html(f, " (%.2f dB less noise of the outputs than with mse)", c->trial->gain_db);
}

static void scales(FILE *f, const struct qc_layer *l)
{
    float low = l->scale[0], high = l->scale[0];
    for (size_t k = 1; k < l->count; k++) {
        low = fminf(low, l->scale[k]);
        high = fmaxf(high, l->scale[k]);
    }
    if (l->count == 1)
        qc_html(f, "<dt>scale, zero point</dt><dd>%s, %" PRId32 "</dd>", QC_SHORT((double)low), l->zero_point[0]);
    else
        qc_html(f, "<dt>scale, zero point</dt><dd>%zu scales along axis %d%s, %s to %s</dd>", l->count, l->axis,
                l->block ? " in blocks" : "", QC_SHORT((double)low), QC_SHORT((double)high));
}

static void numbers(FILE *f, const struct qc_layer *l)
{
    fputs("<dl>", f);
    errors(f, l);
    if (l->node) qc_html(f, "<dt>%s</dt><dd>%s</dd>", strcmp(l->kind, "weight") == 0 ? "read by" : "made by", l->node);
    scales(f, l);
    qc_html(f, "<dt>observed</dt><dd>%s to %s, %s values", QC_SHORT(l->observed_min), QC_SHORT(l->observed_max),
            QC_COUNT(l->observed_count));
    if (l->observed_nan || l->observed_inf)
        qc_html(f, ", <b class=\"bad\">%s NaN, %s infinite</b>", QC_COUNT(l->observed_nan), QC_COUNT(l->observed_inf));
    qc_html(f, "</dd><dt>chosen range</dt><dd>%s to %s by %s", QC_SHORT(l->chosen_min), QC_SHORT(l->chosen_max),
            l->method);
    choice(f, l->choice);
    qc_html(f, "; clipped %s</dd>", QC_PERCENT(l->clipped_fraction));
    solver(f, &l->solver, l->method);
    rounding(f, l);
    if (!isnan(l->max_abs))
        qc_html(f, "<dt>largest error</dt><dd>%s; stored at the lowest or highest level: %s</dd>", QC_SHORT(l->max_abs),
                QC_PERCENT(l->saturated_fraction));
    fputs("</dl>\n", f);
}

static void plots(FILE *f, const struct qc_report *r, const struct qc_layer *l)
{
    fputs("<div class=\"plots\">", f);
    if (l->histogram) {
        fputs("<figure>", f);
        qc_chart_histogram(f, l);
        qc_html(f,
                "<figcaption>Values per bar, logarithmic. Shaded: the chosen range; red: beyond it. Exact zeros are "
                "left out: %s.</figcaption></figure>\n",
                QC_COUNT(l->histogram->zeros));
    } else if (strcmp(l->kind, "activation") == 0) {
        qc_html(f, "<p class=\"note\">No histogram: method %s keeps only the extremes.</p>\n", l->method);
    }
    if (qc_chart_has_curve(l)) {
        fputs("<figure>", f);
        qc_chart_curve(f, l);
        qc_html(f,
                "<figcaption>Objective of %s for the ranges that the solver tried%s. The line and the full dot are its "
                "choice, found by moving each end of the range too%s.</figcaption></figure>\n",
                l->method,
                qc_chart_has_refused(l) ? "; dotted: ranges that are not admitted because their error is too large"
                                        : "",
                l->solver.runner_up ? "; the open dot is the best of those further away" : "");
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
        qc_html(f, " <span class=\"muted\">%s, %s, %s", l->op, l->kind, qc_type_word(l->type));
        if (isfinite(l->sqnr_db)) qc_html(f, ", %.2f dB", l->sqnr_db);
        qc_html(f, "</span></summary><div class=\"body\" id=\"L%zu\">\n", i + 1);
        numbers(f, l);
        plots(f, r, l);
        fputs("</div></details>\n", f);
    }
}

const char *qc_type_word(const char *type)
{
    const enum qc_dtype t = qc_dtype_from_name(type);
    return t == QC_NONE ? type : qc_dtype_long_name(t);
}

/* Returns the type of most layers of a kind, or NULL if there are none. */
static const char *most_common(const struct qc_report *r, const char *kind)
{
    size_t count[QC_DTYPE_COUNT] = {0};
    enum qc_dtype most = QC_NONE;
    for (size_t i = 0; i < r->layer_count; i++)
        if (strcmp(r->layers[i].kind, kind) == 0) count[qc_dtype_from_name(r->layers[i].type)]++;
    for (int t = QC_NONE + 1; t < QC_DTYPE_COUNT; t++)
        if (count[t] > (most == QC_NONE ? 0 : count[most])) most = (enum qc_dtype)t;
    return most == QC_NONE ? NULL : qc_dtype_long_name(most);
}

const char *qc_report_type(const struct qc_report *r)
{
    const char *type = r->size ? NULL : r->weight_type; /* --size chooses the types itself */
    if (!type || strcmp(type, "none") == 0) type = most_common(r, "weight");
    if (!type) type = most_common(r, "activation");
    if (!type) return "quantized";
    if (strncmp(type, "float8", strlen("float8")) == 0) return "fp8";
    if (strncmp(type, "float4", strlen("float4")) == 0) return "fp4";
    return type + (*type == 'u');
}
