// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/report_charts.h"
#include "export/report/report_parts.h"

enum { EFFECTS_SHOWN = 12 }; /* rows; report.json has all layers */

static bool is_decibels(const struct qc_report *r)
{
    return r->metric && strcmp(r->metric, "psnr") == 0;
}

static void number_cell(FILE *f, double x, int digits)
{
    qc_html(f, "<td class=\"n\">%s</td>", QC_FIXED(x, digits));
}

static void step(FILE *f, const struct qc_report *r, const struct qc_report_fallback_step *s)
{
    if (s->layers)
        qc_html(f, "<tr><td class=\"n\">%zu</td>", s->layers);
    else
        fputs("<tr><td class=\"n\">–</td>", f);
    qc_html(f, "<td>%s</td>", *s->type ? s->type : "as asked for");
    if (r->metric) {
        number_cell(f, (is_decibels(r) ? 1 : 100) * s->value, 2);
        number_cell(f, s->drop, 2);
    }
    if (!isnan(r->fallback->min_sqnr)) number_cell(f, s->sqnr_db, 2);
    if (!isnan(r->fallback->max_nll)) number_cell(f, s->nll, 4);
    number_cell(f, 100 * s->int8_share, 1);
    fputs("<td class=\"name\">", f);
    if (s->reason)
        qc_html(f, "not possible: %s", s->reason);
    else
        fputs(s->chosen ? "<b>met, and written</b>" : s->met ? "met" : "missed", f);
    fputs("</td></tr>\n", f);
}

/* Writes the attempts of --max-drop and the command that gives the same result. Writes nothing if there are none. */
static void html_fallback(FILE *f, const struct qc_report *r)
{
    const struct qc_report_fallback *b = r->fallback;
    if (!b) return;
    const char *unit = is_decibels(r) ? "dB" : "points", *between = ": ";
    if (b->mended)
        qc_html(f, "<h2>%s", b->met ? "Outputs that were too noisy were improved" : "Noisy outputs were not improved");
    else
        qc_html(f, "<h2>%s", b->met ? "How the demand was met" : "The demand was not met");
    if (!isnan(b->limit)) {
        qc_html(f, "%sat most %g %s lost", between, b->limit, unit);
        between = ", ";
    }
    if (!isnan(b->min_sqnr)) {
        qc_html(f, "%soutputs of at least %g dB", between, b->min_sqnr);
        between = ", ";
    }
    if (!isnan(b->max_nll)) qc_html(f, "%snll of at most %g", between, b->max_nll);
    fputs(
        "</h2>\n<p>The layers that add the most noise to the outputs get wider types. Their number is doubled until "
        "the demand is met, and then bisected to the smallest number that meets it. Activations or weights, whichever "
        "lose more, get the next wider integer type of the target, or float.</p>\n<div class=\"scroll\" tabindex=\"0\" "
        "role=\"region\" aria-label=\"Attempts\"><table><thead><tr><th class=\"n\">worst layers</th><th>in</th>",
        f);
    if (r->metric)
        qc_html(f, "<th class=\"n\">%s</th><th class=\"n\">lost, %s</th>", is_decibels(r) ? "PSNR, dB" : "top-1, %",
                unit);
    if (!isnan(b->min_sqnr)) fputs("<th class=\"n\">worst output, dB</th>", f);
    if (!isnan(b->max_nll)) fputs("<th class=\"n\">nll, nats</th>", f);
    fputs("<th class=\"n\">multiply-adds in int8, %</th><th>demand</th></tr></thead><tbody>\n", f);
    for (size_t i = 0; i < b->step_count; i++) step(f, r, &b->steps[i]);
    fputs("</tbody></table></div>\n", f);
    if (!b->command) return;
    fputs("<p style=\"margin-top:10px\">Options that give the same result:</p>\n", f);
    qc_page_command(f, b->command);
}

/* Returns the index of the quantized activation that a node computes, otherwise of a weight that it reads, otherwise
   QC_NO_INDEX. */
static size_t report_layer_of(const struct qc_report *r, const char *node)
{
    size_t weight = QC_NO_INDEX;
    for (size_t i = 0; i < r->layer_count; i++) {
        if (!r->layers[i].node || strcmp(r->layers[i].node, node) != 0) continue;
        if (strcmp(r->layers[i].kind, "activation") == 0) return i;
        if (weight == QC_NO_INDEX) weight = i;
    }
    return weight;
}

static void effect(FILE *f, const struct qc_report *r, size_t i, bool scored)
{
    const struct qc_report_effect *e = &r->effects[i];
    const size_t layer = report_layer_of(r, e->node);
    qc_html(f, "<tr><td class=\"n\">%zu</td><td class=\"name\">", i + 1);
    if (layer != QC_NO_INDEX) qc_html(f, "<a href=\"#L%zu\">", layer + 1);
    qc_html(f, "%s", *e->node ? e->node : "(no name)");
    if (layer != QC_NO_INDEX) fputs("</a>", f);
    qc_html(f, "</td><td>%s</td>", e->op);
    if (scored) {
        number_cell(f, (is_decibels(r) ? 1 : 100) * e->metric, 2);
        number_cell(f, e->lost, 2);
    }
    number_cell(f, e->sqnr_db, 2);
    number_cell(f, e->weights_sqnr_db, 2);
    fputs("</tr>\n", f);
}

/* Writes the layers with the largest effects on the outputs. Writes nothing if effects were not measured. */
static void html_effects(FILE *f, const struct qc_report *r)
{
    if (!r->effect_count) return;
    const bool scored = isfinite(r->effects[0].metric);
    qc_html(f, "<h2>%s</h2>\n<p class=\"note\">",
            r->fallback && r->fallback->met ? "Effect of each layer, before layers got wider types"
                                            : "Effect of each layer alone on the outputs");
    if (scored)
        qc_html(f, "%s and its loss on %zu samples, and SQNR of the outputs on %zu,",
                is_decibels(r) ? "PSNR" : "Top-1 accuracy", r->eval_samples, r->effect_samples);
    else
        qc_html(f, "SQNR of the outputs on %zu samples", r->effect_samples);
    fputs(" if only the inputs and weights of this layer are quantized; and SQNR with only its weights quantized.", f);
    if (scored) fputs(" Sorted by accuracy loss, then by SQNR.", f);
    if (r->effect_count > EFFECTS_SHOWN)
        qc_html(f, " The worst %d of %zu; all are in report.json.", EFFECTS_SHOWN, r->effect_count);
    fputs("</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Effects of "
          "layers\"><table><thead><tr><th class=\"n\">rank</th><th>layer</th><th>op</th>",
          f);
    if (scored)
        qc_html(f, "<th class=\"n\">%s</th><th class=\"n\">lost, %s</th>", is_decibels(r) ? "PSNR, dB" : "top-1, %",
                is_decibels(r) ? "dB" : "points");
    fputs("<th class=\"n\">SQNR, dB</th><th class=\"n\">weights alone, dB</th></tr></thead><tbody>\n", f);
    for (size_t i = 0; i < r->effect_count && i < EFFECTS_SHOWN; i++) effect(f, r, i, scored);
    fputs("</tbody></table></div>\n", f);
}

void qc_report_overflowed(uint64_t *overflows, uint64_t *results, const struct qc_report_accumulator *a)
{
    *overflows = *results = 0;
    for (size_t i = 0; i < a->layer_count; i++) {
        *overflows += a->layers[i].overflows;
        *results += a->layers[i].results;
    }
}

/* Writes the effect of narrow accumulators, layer by layer. */
static void html_accumulators(FILE *f, const struct qc_report *r)
{
    const struct qc_report_accumulator *a = r->accumulator;
    if (!a) return;
    uint64_t overflows, results;
    qc_report_overflowed(&overflows, &results, a);
    qc_html(f,
            "<h2>Accumulators of %u bits</h2>\n<p>Sums that do not fit <b>%s</b>. For the bound <b>%s</b> %zu scale%s "
            "of weights %s raised, and %zu output channel%s rounded to nearest or corrected in "
            "part. ",
            a->bits, a->overflow, a->bound, a->scales_raised, qc_plural(a->scales_raised),
            a->scales_raised == 1 ? "was" : "were", a->channels_bounded, qc_plural(a->channels_bounded));
    if (!a->samples) {
        fputs("Their effect is not known without samples.</p>\n", f);
        return;
    }
    if (!a->layer_count) {
        fputs("No layer can overflow.</p>\n", f);
        return;
    }
    qc_html(f,
            "Counted on %zu samples of <b class=\"name\">%s</b>: <b>%" PRIu64 "</b> of %" PRIu64
            " results overflowed in the %zu layer%s that can.</p>\n"
            "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Overflows of "
            "layers\"><table><thead><tr><th>layer</th><th class=\"n\">sums</th><th "
            "class=\"n\">overflowed</th><th class=\"n\">bits that would hold all</th></tr></thead><tbody>\n",
            a->samples, qc_page_file_name(a->file), overflows, results, a->layer_count, qc_plural(a->layer_count));
    for (size_t i = 0; i < a->layer_count; i++) {
        const struct qc_report_overflow *l = &a->layers[i];
        qc_html(f,
                "<tr><td class=\"name\">%s</td><td class=\"n\">%" PRIu64 "</td><td class=\"n\">%" PRIu64
                "</td><td class=\"n\">%u</td></tr>\n",
                l->name, l->results, l->overflows, l->bits);
    }
    fputs("</tbody></table></div>\n", f);
}

enum { RANKS_SHOWN = 1000 }; /* rows; report.json has all layers */

struct ranking {
    const struct qc_report *r;
    bool measured; /* effects belong to the written network */
    bool scored;   /* effects include accuracy */
    bool decibels; /* accuracy is PSNR */
};

/* Returns the effect of a layer measured by --sensitivity, or NULL. */
static const struct qc_report_effect *effect_of(const struct ranking *k, const char *node)
{
    for (size_t i = 0; k->measured && i < k->r->effect_count; i++)
        if (strcmp(k->r->effects[i].node, node) == 0) return &k->r->effects[i];
    return NULL;
}

static void sorted_decibels(FILE *f, double db)
{
    qc_html_cell(f, db, QC_FIXED(db, 2));
}

static void ranking_row(FILE *f, const struct ranking *k, size_t i)
{
    const struct qc_report_rank *e = &k->r->ranks[i];
    const struct qc_report_effect *found = effect_of(k, e->node);
    qc_html(f, "<tr><td class=\"n\" data-v=\"%zu\">%zu</td><td class=\"name\">", i + 1, i + 1);
    qc_html_layer_link(f, *e->node ? e->node : "(no name)", *e->node ? report_layer_of(k->r, e->node) : QC_NO_INDEX);
    qc_html(f, "</td><td>%s</td>", e->op);
    if (k->scored) sorted_decibels(f, found ? found->lost : (double)NAN);
    sorted_decibels(f, e->sqnr_db);
    if (k->measured) sorted_decibels(f, found ? found->weights_sqnr_db : (double)NAN);
    qc_html(f, "<td>%s</td></tr>\n", e->measured ? "measured" : "estimate");
}

static void explain(FILE *f, const struct ranking *k, bool estimates)
{
    fputs(
        "<p class=\"note\">The layers that add the most noise to the outputs come first. <b>Output SQNR</b> is that of "
        "the outputs with only this layer quantized: its input and its weights.",
        f);
    if (estimates)
        fputs(" An <b>estimate</b> comes from the errors of all tensors; <code>--sensitivity</code> measures every "
              "layer.",
              f);
    if (k->scored)
        fputs(" <b>Lost</b> is the accuracy that this layer alone costs; the layers are sorted by it first.", f);
    if (k->measured) fputs(" <b>Weights alone</b>: with only its weights quantized.", f);
    fputs(" Click a column to sort.</p>\n", f);
}

bool qc_html_ranking(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    const bool measured = r->effect_count && !(r->fallback && r->fallback->met);
    const struct ranking k = {.r = r,
                              .measured = measured,
                              .scored = measured && isfinite(r->effects[0].lost),
                              .decibels = r->metric && strcmp(r->metric, "psnr") == 0};
    bool estimates = false;
    (void)st;
    for (size_t i = 0; i < r->rank_count; i++) estimates = estimates || !r->ranks[i].measured;
    if (r->rank_count) {
        explain(f, &k, estimates);
        fputs("<div class=\"tools\"><input class=\"filter\" type=\"search\" placeholder=\"Filter: name, op\" "
              "aria-label=\"Filter the layers by effect\"><span class=\"muted shown\" role=\"status\"></span></div>\n"
              "<div class=\"layers\" tabindex=\"0\" role=\"region\" aria-label=\"Layers by effect on the "
              "outputs\"><table class=\"sortable\" id=\"ranking\"><thead><tr><th class=\"n\" scope=\"col\">#</th><th "
              "scope=\"col\">layer</th><th scope=\"col\">op</th>",
              f);
        if (k.scored) qc_html(f, "<th class=\"n\" scope=\"col\">lost, %s</th>", k.decibels ? "dB" : "points");
        fputs("<th class=\"n\" scope=\"col\">output SQNR, dB</th>", f);
        if (k.measured) fputs("<th class=\"n\" scope=\"col\">weights alone, dB</th>", f);
        fputs("<th scope=\"col\">how known</th></tr></thead><tbody>\n", f);
        for (size_t i = 0; i < r->rank_count && i < RANKS_SHOWN; i++) ranking_row(f, &k, i);
        fputs("</tbody></table></div>\n<p class=\"none\" hidden>No layer matches the filter.</p>\n", f);
        if (r->rank_count > RANKS_SHOWN)
            qc_html(f, "<p class=\"note\">The first %d of %zu; report.json has all.</p>\n", RANKS_SHOWN, r->rank_count);
    } else {
        fputs(r->measured_samples ? "<p>No layer adds noise to the outputs.</p>\n"
                                  : "<p>Nothing was measured: effects are measured on the samples of "
                                    "<code>--data</code>.</p>\n",
              f);
    }
    if (!measured || !r->rank_count) html_effects(f, r);
    return true;
}

/* A plot of 640 x 250 with room for the axes; an error of 0 is drawn at its lower edge. */
enum { WIDTH = 640, HEIGHT = 250, LEFT = 52, RIGHT = 16, TOP = 22, BOTTOM = 38, OPTIONS_SHOWN = 12 };

static const double inner_width = WIDTH - LEFT - RIGHT, inner_height = HEIGHT - TOP - BOTTOM, DECADES = 12;

struct plot {
    double from, to, lo, hi; /* bytes; log10 of the error */
    double unit;             /* bytes in the unit of the axis labels */
};

static double size_across(const struct plot *p, size_t bytes)
{
    return LEFT + ((double)bytes - p->from) / (p->to - p->from) * inner_width;
}

static double size_up(const struct plot *p, double error)
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

static struct plot size_extent(const struct qc_report_size *s)
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

static void size_axes(FILE *f, const struct plot *p)
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
    const struct plot p = size_extent(s);
    qc_html(f,
            "<svg width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" role=\"img\"><title>Expected error for the size of "
            "the file</title>\n",
            WIDTH, HEIGHT, WIDTH, HEIGHT);
    size_axes(f, &p);
    if ((double)s->limit >= p.from && (double)s->limit <= p.to)
        qc_html(f, "<path class=\"limit\" d=\"M%.1f %dV%.1f\"/>", size_across(&p, s->limit), TOP, TOP + inner_height);
    fputs("<path class=\"line\" d=\"", f);
    for (size_t i = 0; i < s->row_count; i++)
        qc_html(f, "%s%.1f %.1f", i ? "L" : "M", size_across(&p, s->rows[i].bytes), size_up(&p, s->rows[i].error));
    fputs("\"/>\n", f);
    for (size_t i = 0; i < s->uniform_count; i++)
        qc_html(f,
                "<circle class=\"dot3\" cx=\"%.1f\" cy=\"%.1f\" r=\"3\"/><text x=\"%.1f\" y=\"%.1f\" "
                "text-anchor=\"%s\">all %u bits</text>",
                size_across(&p, s->uniform[i].bytes), size_up(&p, s->uniform[i].error),
                size_across(&p, s->uniform[i].bytes) + (i ? 6 : -6), size_up(&p, s->uniform[i].error) - 6,
                i ? "start" : "end", s->uniform[i].bits);
    for (size_t i = 0; i < s->row_count; i++)
        if (s->rows[i].chosen)
            qc_html(f, "<circle class=\"dot\" cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/>", size_across(&p, s->rows[i].bytes),
                    size_up(&p, s->rows[i].error));
    fputs("</svg>\n", f);
}

static void html_size(FILE *f, const struct qc_report *r)
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
    if (s->option_count > OPTIONS_SHOWN) return;
    fputs("<p style=\"margin-top:10px\">Options that give the same result:</p>\n", f);
    qc_page_command(f, s->command);
}

void qc_json_size_choice(struct qc_json *o, const struct qc_report_size *s)
{
    struct qc_json *size = qc_json_object(), *list = qc_json_array();
    qc_json_put(size, "limit %zu bytes %zu expected_error %g error_of %s", s->limit, s->bytes, s->error,
                s->of_outputs ? "outputs" : "weights");
    for (size_t i = 0; i < s->layer_count; i++) {
        qc_json_add(list, QC_JSON("node %s bits %u bytes %zu expected_error %g", s->layers[i].node, s->layers[i].bits,
                                  s->layers[i].bytes, s->layers[i].error));
    }
    qc_json_set(size, "layers", list);
    list = qc_json_array();
    for (size_t i = 0; i < s->uniform_count; i++) {
        qc_json_add(list, QC_JSON("bits %u bytes %zu expected_error %g", s->uniform[i].bits, s->uniform[i].bytes,
                                  s->uniform[i].error));
    }
    qc_json_set(size, "uniform", list);
    if (s->blocks_count) {
        qc_json_put(size, "weight_block %lld", (long long)s->block);
        list = qc_json_array();
        for (size_t i = 0; i < s->blocks_count; i++)
            qc_json_add(list, QC_JSON("weight_block %lld fits %hhd expected_error %g", (long long)s->blocks[i].block,
                                      s->blocks[i].fits, s->blocks[i].error));
        qc_json_set(size, "blocks", list);
    }
    qc_json_set(size, "options", qc_json_strings(s->options, s->option_count));
    qc_json_set(size, "command", qc_json_string(s->command));
    qc_json_set(o, "size", size);
    list = qc_json_array();
    for (size_t i = 0; i < s->row_count; i++) {
        qc_json_add(list, QC_JSON("bytes %zu expected_error %g chosen %hhd", s->rows[i].bytes, s->rows[i].error,
                                  s->rows[i].chosen));
    }
    qc_json_set(o, "frontier", list);
}

static void named_milliseconds(FILE *f, const char *name, double ms)
{
    if (!isnan(ms)) qc_html(f, "%s %s ms", name, QC_SHORT(ms));
}

void qc_html_latency_tile(FILE *f, const struct qc_report *r)
{
    const struct qc_report_latency *l = r->latency;
    if (!l) return;
    qc_html(f, "<section class=\"tile\"><h2>Latency</h2><div class=\"big\">%s ms</div><div class=\"note\">",
            QC_SHORT(l->best_ms));
    named_milliseconds(f, "Float", l->float_ms);
    named_milliseconds(f, isnan(l->float_ms) ? "Default" : ", default", l->default_ms);
    named_milliseconds(f, ", everything in integers", l->integers_ms);
    qc_html(f, ". Measured by <code>%s</code></div></section>", l->command);
}

/* Writes a row: the mark in the plot, the name, latency and SQNR. */
static void placement_row(FILE *f, const struct qc_placement_point *p, const char *name)
{
    qc_html(f,
            "<tr><td><svg width=\"11\" height=\"11\" viewBox=\"0 0 11 11\" aria-hidden=\"true\"><path class=\"%s\" "
            "d=\"M5.5 5.5%s\"/></svg>%s</td><td class=\"n\">%s</td><td class=\"n\">%s</td></tr>\n",
            p->css, p->shape, name, QC_SHORT(p->ms),
            isinf(p->sqnr_db) && p->sqnr_db > 0 ? "no error" : QC_FIXED(p->sqnr_db, 2));
}

/* Writes a plot, if errors were measured, and a table of the named placements and of all changes. */
static bool placements(FILE *f, const struct qc_report_latency *l, struct qc_status *st)
{
    static const char *const names[] = {"Float", "Written", "Default", "Everything in integers"};
    const struct qc_placement_point named[] = {
        {.ms = l->float_ms, .sqnr_db = (double)INFINITY, .css = "dot4", .shape = "m-4-4h8v8h-8z"},
        {.ms = l->best_ms,
         .sqnr_db = l->best_db,
         .css = "dot",
         .shape = "m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0z"},
        {.ms = l->default_ms, .sqnr_db = l->default_db, .css = "dot2", .shape = "m0-5l5 9h-10z"},
        {.ms = l->integers_ms, .sqnr_db = l->integers_db, .css = "dot3", .shape = "m-5 0l5-5l5 5l-5 5z"}};
    enum { NAMED = sizeof named / sizeof *named };
    struct qc_placement_point *points = calloc(NAMED + l->step_count, sizeof *points);
    size_t count = 0;
    bool finite = false;
    if (!points) return qc_fail_memory(st, (NAMED + l->step_count) * sizeof *points);
    for (size_t i = 0; i < l->step_count + NAMED; i++) {
        points[count] = i < l->step_count
                            ? (struct qc_placement_point){.ms = l->steps[i].after_ms, .sqnr_db = l->steps[i].sqnr_db}
                            : named[i - l->step_count];
        finite = finite || isfinite(points[count].sqnr_db);
        count += !isnan(points[count].ms) && !isnan(points[count].sqnr_db);
    }
    fputs("<h2>Latency and error of placements</h2>\n<div class=\"plots\">", f);
    if (finite) {
        fputs("<figure>", f);
        qc_chart_placements(f, points, count);
        fputs("<figcaption>SQNR of the outputs in dB. Small dots are changes that were tried, with ranges and rounding "
              "chosen in a cheaper way. The line joins placements that no other beats in both. Float has no error: it "
              "is at the upper edge.</figcaption></figure>",
              f);
    }
    fputs("<div class=\"key\"><table><thead><tr><th>placement</th><th class=\"n\">ms</th><th class=\"n\">SQNR, "
          "dB</th></tr></thead><tbody>\n",
          f);
    for (size_t i = 0; i < NAMED; i++)
        if (!isnan(named[i].ms)) placement_row(f, &named[i], names[i]);
    fputs("</tbody></table></div></div>\n", f);
    free(points);
    return true;
}

static bool html_latency(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    const struct qc_report_latency *l = r->latency;
    size_t kept = 0;
    if (!l) return true;
    if (!placements(f, l, st)) return false;
    for (size_t i = 0; i < l->step_count; i++) kept += l->steps[i].kept;
    qc_html(f, "<h2>Placement by latency: %zu of %zu changes kept</h2>\n", kept, l->step_count);
    fputs("<div class=\"scroll\"><table><thead><tr><th>operators</th><th class=\"n\">count</th><th>to</th><th "
          "class=\"n\">ms before</th><th class=\"n\">ms after</th><th class=\"n\">SQNR, "
          "dB</th><th></th></tr></thead><tbody>\n",
          f);
    for (size_t i = 0; i < l->step_count; i++) {
        const struct qc_report_latency_step *s = &l->steps[i];
        qc_html(f,
                "<tr><td class=\"name\">%s</td><td class=\"n\">%zu</td><td>%s</td><td class=\"n\">%s</td>"
                "<td class=\"n\">%s</td><td class=\"n\">%s</td><td class=\"name\">",
                s->group, s->op_count, s->to_float ? "float" : "integers", QC_SHORT(s->before_ms),
                QC_SHORT(s->after_ms), QC_FIXED(s->sqnr_db, 2));
        if (s->reason)
            qc_html(f, "not possible: %s", s->reason);
        else if (s->kept)
            fputs("<b>kept</b>", f);
        fputs("</td></tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
    if (l->reverted) fputs("<p class=\"note\">They gain nothing over the default, which was written.</p>\n", f);
    if (l->left) qc_html(f, "<p class=\"note\">%zu more groups were not tried.</p>\n", l->left);
    return true;
}

struct qc_json *qc_json_latency(const struct qc_report_latency *l)
{
    struct qc_json *o = qc_json_object(), *list = qc_json_array();
    qc_json_put(o,
                "command %s float_ms %g default_ms %g integers_ms %g best_ms %g default_sqnr_db %g integers_sqnr_db %g "
                "best_sqnr_db %g reverted %hhd all_float %hhd",
                l->command, l->float_ms, l->default_ms, l->integers_ms, l->best_ms, l->default_db, l->integers_db,
                l->best_db, l->reverted, l->all_float);
    for (size_t i = 0; i < l->step_count; i++) {
        const struct qc_report_latency_step *s = &l->steps[i];
        qc_json_add(list, QC_JSON("group %s ops %zu to %s before_ms %g after_ms %g sqnr_db %g kept %hhd reason %s",
                                  s->group, s->op_count, s->to_float ? "float" : "integers", s->before_ms, s->after_ms,
                                  s->sqnr_db, s->kept, s->reason));
    }
    qc_json_set(o, "changes", list);
    qc_json_set(o, "groups_left", qc_json_whole(l->left));
    qc_json_set(o, "placement", l->all_float ? qc_json_null() : qc_latency_placement(l));
    qc_json_set(o, "seconds", qc_json_number(l->seconds));
    return o;
}

struct qc_json *qc_latency_placement(const struct qc_report_latency *l)
{
    struct qc_json *o = QC_JSON("prefer %s", l->prefer);
    qc_json_set(o, "skip", qc_json_strings(l->skip, l->skip_count));
    return o;
}

void qc_html_layer_link(FILE *f, const char *node, size_t layer)
{
    if (layer != QC_NO_INDEX) qc_html(f, "<a href=\"#L%zu\">", layer + 1);
    qc_html_name(f, node);
    if (layer != QC_NO_INDEX) fputs("</a>", f);
}

static void one_advice(FILE *f, const struct qc_report *r, const struct qc_report_advice *a)
{
    qc_html(f, "<li><h3>%s", a->action);
    if (a->node) {
        fputs(": ", f);
        qc_html_layer_link(f, a->node, a->layer);
    }
    qc_html(f, "</h3><p>Outputs %.2f → <b>%.2f dB</b>; on held-out samples %.2f → %.2f dB", a->before_db, a->after_db,
            a->held_before_db, a->held_after_db);
    for (size_t i = 0; r->output_count > 1 && i < r->output_count; i++)
        qc_html(f, "%s%s %.2f → %.2f", i ? ", " : ". ", r->outputs[i].name, a->outputs_before_db[i],
                a->outputs_after_db[i]);
    fputs("</p>", f);
    qc_page_command(f, a->command);
    fputs("</li>\n", f);
}

/* Writes the changes that were not tried, in one sentence. */
static void left_out(FILE *f, const struct qc_report *r)
{
    if (!r->advice_left) return;
    qc_html(f, " %zu %s%s not tried, to save time; <code>--advice on</code> tries all", r->advice_left,
            r->advice_tried ? "more " : "", r->advice_left == 1 ? "idea was" : "ideas were");
    for (size_t i = 0; r->advice_left_out && i < r->advice_left; i++) {
        qc_html(f, "%s%s", i ? "; " : ": ", r->advice_left_out[i].action);
        if (!r->advice_left_out[i].node) continue;
        fputs(": ", f);
        qc_html_name(f, r->advice_left_out[i].node);
    }
    putc('.', f);
}

void qc_html_no_advice(FILE *f, const struct qc_report *r)
{
    static const char *const why[] = {
        [QC_ADVICE_NOT_ASKED] = "Nothing was tried: <code>--advice off</code>.",
        [QC_ADVICE_NO_DATA] = "Nothing was tried: commands are tried on the samples of <code>--data</code>.",
        [QC_ADVICE_NOT_NEEDED] = "The loss is too small to need a change.",
        [QC_ADVICE_MET] = "The demand is met with wider types.",
        [QC_ADVICE_SIZED] = "Nothing was tried: <code>--size</code> has chosen the types.",
        [QC_ADVICE_LARGE] =
            "Nothing was tried: the model is large or memory is limited; <code>--advice on</code> tries all the same.",
        [QC_ADVICE_SHARED] = "Nothing was tried: several processes share the data.",
    };
    if (r->advice_state != QC_ADVICE_TRIED)
        fputs(why[r->advice_state], f);
    else if (r->advice_tried == 1)
        qc_html(f, "Nothing found: one option was tried, and it gains less than 0.3 dB.");
    else if (r->advice_tried)
        qc_html(f, "Nothing found: %zu options were tried, and none gains 0.3 dB.", r->advice_tried);
    else if (!r->advice_left)
        qc_html(f, "No option is known that could help.");
    left_out(f, r);
}

/* Writes the changes that help, or why there are none. */
static void advice_list(FILE *f, const struct qc_report *r)
{
    fputs("<h2>What helps</h2>\n", f);
    if (!r->advice_count) {
        fputs("<p>", f);
        qc_html_no_advice(f, r);
        fputs("</p>\n", f);
    }
    if (r->cheaper) {
        fputs("<p class=\"note\">For a smaller file:</p><ol class=\"hurts helps\">\n", f);
        one_advice(f, r, r->cheaper);
        fputs("</ol>\n", f);
    }
    if (!r->advice_count) return;
    qc_html(f,
            "<p class=\"note\">%zu command%s tried in this run. %s the SQNR of the outputs by 0.3 dB or more, on %zu "
            "sample%s and on held-out samples.",
            r->advice_tried, r->advice_tried == 1 ? " was" : "s were",
            r->advice_count == 1 ? "This one raises" : "These raise", r->measured_samples,
            qc_plural(r->measured_samples));
    left_out(f, r);
    fputs("</p><ol class=\"hurts helps\">\n", f);
    for (size_t i = 0; i < r->advice_count; i++) one_advice(f, r, &r->advice[i]);
    fputs("</ol>\n", f);
}

static void suggestions(FILE *f, const struct qc_report *r)
{
    if (r->fallback && r->fallback->met && !r->suggestion_count) return;
    fputs("<h2>Largest sources of error</h2>\n", f);
    if (!r->suggestion_count) {
        fputs(r->measured_samples
                  ? "<p>No op adds error to its inputs.</p>\n"
                  : "<p>Nothing was measured: layers are compared on the samples of <code>--data</code>.</p>\n",
              f);
        return;
    }
    fputs("<p class=\"note\">Ops whose results have much more relative error than their inputs. Those with a known "
          "cause come first.</p><ol class=\"hurts\">\n",
          f);
    for (size_t i = 0; i < r->suggestion_count; i++) {
        const struct qc_report_suggestion *s = &r->suggestions[i];
        qc_html(f, "<li><h3>%zu. ", i + 1);
        qc_html_layer_link(f, s->node, s->layer);
        qc_html(f, " <span class=\"muted\">%s</span></h3><p>SQNR ", s->op);
        if (isfinite(s->before_db)) qc_html(f, "%.1f → ", s->before_db);
        qc_html(f, "<b>%.1f dB</b>: %s.</p></li>\n", s->after_db, s->why);
    }
    fputs("</ol>\n", f);
}

bool qc_html_advice(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    fputs("<section class=\"screen\" id=\"advice\">\n", f);
    html_size(f, r);
    const bool ok = html_latency(f, r, st);
    html_fallback(f, r);
    advice_list(f, r);
    suggestions(f, r);
    html_accumulators(f, r);
    fputs("</section>\n", f);
    return ok;
}
