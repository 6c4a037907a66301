// SPDX-License-Identifier: Apache-2.0
#include "export/report/report_parts.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "export/report/html.h"

enum { SHOWN = 12 }; /* rows; report.json has all layers */

static bool decibels(const struct qc_report *r)
{
    return r->metric && strcmp(r->metric, "psnr") == 0;
}

static void number(FILE *f, double x, int digits)
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
        number(f, (decibels(r) ? 1 : 100) * s->value, 2);
        number(f, s->drop, 2);
    }
    if (!isnan(r->fallback->min_sqnr)) number(f, s->sqnr_db, 2);
    if (!isnan(r->fallback->max_nll)) number(f, s->nll, 4);
    number(f, 100 * s->int8_share, 1);
    fputs("<td class=\"name\">", f);
    if (s->reason)
        qc_html(f, "not possible: %s", s->reason);
    else
        fputs(s->chosen ? "<b>met, and written</b>" : s->met ? "met" : "missed", f);
    fputs("</td></tr>\n", f);
}

void qc_html_fallback(FILE *f, const struct qc_report *r)
{
    const struct qc_report_fallback *b = r->fallback;
    if (!b) return;
    const char *unit = decibels(r) ? "dB" : "points", *between = ": ";
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
        qc_html(f, "<th class=\"n\">%s</th><th class=\"n\">lost, %s</th>", decibels(r) ? "PSNR, dB" : "top-1, %", unit);
    if (!isnan(b->min_sqnr)) fputs("<th class=\"n\">worst output, dB</th>", f);
    if (!isnan(b->max_nll)) fputs("<th class=\"n\">nll, nats</th>", f);
    fputs("<th class=\"n\">multiply-adds in int8, %</th><th>demand</th></tr></thead><tbody>\n", f);
    for (size_t i = 0; i < b->step_count; i++) step(f, r, &b->steps[i]);
    fputs("</tbody></table></div>\n", f);
    if (!b->command) return;
    fputs("<p style=\"margin-top:10px\">Options that give the same result:</p>\n", f);
    qc_page_command(f, b->command);
}

size_t qc_report_layer_of(const struct qc_report *r, const char *node)
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
    const size_t layer = qc_report_layer_of(r, e->node);
    qc_html(f, "<tr><td class=\"n\">%zu</td><td class=\"name\">", i + 1);
    if (layer != QC_NO_INDEX) qc_html(f, "<a href=\"#L%zu\">", layer + 1);
    qc_html(f, "%s", *e->node ? e->node : "(no name)");
    if (layer != QC_NO_INDEX) fputs("</a>", f);
    qc_html(f, "</td><td>%s</td>", e->op);
    if (scored) {
        number(f, (decibels(r) ? 1 : 100) * e->metric, 2);
        number(f, e->lost, 2);
    }
    number(f, e->sqnr_db, 2);
    number(f, e->weights_sqnr_db, 2);
    fputs("</tr>\n", f);
}

void qc_html_effects(FILE *f, const struct qc_report *r)
{
    if (!r->effect_count) return;
    const bool scored = isfinite(r->effects[0].metric);
    qc_html(f, "<h2>%s</h2>\n<p class=\"note\">",
            r->fallback && r->fallback->met ? "Effect of each layer, before layers got wider types"
                                            : "Effect of each layer alone on the outputs");
    if (scored)
        qc_html(f, "%s and its loss on %zu samples, and SQNR of the outputs on %zu,",
                decibels(r) ? "PSNR" : "Top-1 accuracy", r->eval_samples, r->effect_samples);
    else
        qc_html(f, "SQNR of the outputs on %zu samples", r->effect_samples);
    fputs(" if only the inputs and weights of this layer are quantized; and SQNR with only its weights quantized.", f);
    if (scored) fputs(" Sorted by accuracy loss, then by SQNR.", f);
    if (r->effect_count > SHOWN) qc_html(f, " The worst %d of %zu; all are in report.json.", SHOWN, r->effect_count);
    fputs("</p>\n<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Effects of "
          "layers\"><table><thead><tr><th class=\"n\">rank</th><th>layer</th><th>op</th>",
          f);
    if (scored)
        qc_html(f, "<th class=\"n\">%s</th><th class=\"n\">lost, %s</th>", decibels(r) ? "PSNR, dB" : "top-1, %",
                decibels(r) ? "dB" : "points");
    fputs("<th class=\"n\">SQNR, dB</th><th class=\"n\">weights alone, dB</th></tr></thead><tbody>\n", f);
    for (size_t i = 0; i < r->effect_count && i < SHOWN; i++) effect(f, r, i, scored);
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
void qc_html_accumulators(FILE *f, const struct qc_report *r)
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
