// SPDX-License-Identifier: Apache-2.0
#include <math.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/report_parts.h"

enum { SHOWN = 1000 }; /* rows; report.json has all layers */

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

static void number(FILE *f, double v)
{
    if (isnan(v))
        fputs("<td class=\"n\" data-v=\"\">–</td>", f);
    else
        qc_html(f, "<td class=\"n\" data-v=\"%.9g\">%s</td>", isinf(v) ? v > 0 ? 1e9 : -1e9 : v, QC_FIXED(v, 2));
}

static void row(FILE *f, const struct ranking *k, size_t i)
{
    const struct qc_report_rank *e = &k->r->ranks[i];
    const struct qc_report_effect *found = effect_of(k, e->node);
    qc_html(f, "<tr><td class=\"n\" data-v=\"%zu\">%zu</td><td class=\"name\">", i + 1, i + 1);
    qc_html_layer_link(f, *e->node ? e->node : "(no name)", *e->node ? qc_report_layer_of(k->r, e->node) : QC_NO_INDEX);
    qc_html(f, "</td><td>%s</td>", e->op);
    if (k->scored) number(f, found ? found->lost : (double)NAN);
    number(f, e->sqnr_db);
    if (k->measured) number(f, found ? found->weights_sqnr_db : (double)NAN);
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
        for (size_t i = 0; i < r->rank_count && i < SHOWN; i++) row(f, &k, i);
        fputs("</tbody></table></div>\n<p class=\"none\" hidden>No layer matches the filter.</p>\n", f);
        if (r->rank_count > SHOWN)
            qc_html(f, "<p class=\"note\">The first %d of %zu; report.json has all.</p>\n", SHOWN, r->rank_count);
    } else {
        fputs(r->measured_samples ? "<p>No layer adds noise to the outputs.</p>\n"
                                  : "<p>Nothing was measured: effects are measured on the samples of "
                                    "<code>--data</code>.</p>\n",
              f);
    }
    if (!measured || !r->rank_count) qc_html_effects(f, r);
    return true;
}
