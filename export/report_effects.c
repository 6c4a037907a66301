// SPDX-License-Identifier: Apache-2.0
#include "export/report_effects.h"

#include <math.h>
#include <string.h>

#include "export/html.h"
#include "export/report_page.h"

enum { SHOWN = 12 }; /* layers; report.json has all */

static bool decibels(const struct qc_report *r)
{
    return r->metric && strcmp(r->metric, "psnr") == 0;
}

static void step(FILE *f, const struct qc_report_fallback_step *s, double unit)
{
    fputs("<tr><td class=\"n\">", f);
    if (s->layers) qc_html(f, "%zu</td><td>", s->layers);
    else fputs("–</td><td>", f);
    qc_html_text(f, *s->type ? s->type : "as asked for");
    fputs("</td><td class=\"n\">", f);
    qc_html_fixed(f, unit * s->value, 2);
    fputs("</td><td class=\"n\">", f);
    qc_html_fixed(f, s->drop, 2);
    fputs("</td><td class=\"n\">", f);
    qc_html_fixed(f, 100 * s->int8_share, 1);
    fputs("</td><td class=\"name\">", f);
    if (s->reason) {
        fputs("not possible: ", f);
        qc_html_text(f, s->reason);
    } else fputs(s->chosen ? "<b>met, and written</b>" : s->met ? "met" : "missed", f);
    fputs("</td></tr>\n", f);
}

void qc_html_fallback(FILE *f, const struct qc_report *r)
{
    const struct qc_report_fallback *b = r->fallback;
    if (!b) return;
    const char *unit = decibels(r) ? "dB" : "points";
    qc_html(f, "<h2>%s: at most %g %s lost</h2>\n<p>", b->met ? "How the demand was met" : "The demand was not met", b->limit, unit);
    fputs("The layers that alone do the most to the outputs were given wider types, their number doubled until the demand held and then halved towards the least that does: "
          "16 bits for what loses more, the activations or the weights, or float.</p>\n", f);
    qc_html(f, "<div class=\"scroll\"><table><thead><tr><th class=\"n\">worst layers</th><th>in</th><th class=\"n\">%s</th><th class=\"n\">lost, %s</th><th class=\"n\">multiply-adds in int8, %%</th><th>demand</th></tr></thead><tbody>\n",
            decibels(r) ? "PSNR, dB" : "top-1, %", unit);
    for (size_t i = 0; i < b->step_count; i++) step(f, &b->steps[i], decibels(r) ? 1 : 100);
    fputs("</tbody></table></div>\n", f);
    if (!b->command) return;
    fputs("<p style=\"margin-top:10px\">The same by hand:</p>\n", f);
    qc_page_command(f, b->command);
}

/* The layer that a node makes. */
static size_t made_by(const struct qc_report *r, const char *node)
{
    for (size_t i = 0; i < r->layer_count; i++)
        if (r->layers[i].node && strcmp(r->layers[i].kind, "activation") == 0 && strcmp(r->layers[i].node, node) == 0) return i;
    return QC_NO_INDEX;
}

static void effect(FILE *f, const struct qc_report *r, size_t i, bool scored)
{
    const struct qc_report_effect *e = &r->effects[i];
    const size_t layer = made_by(r, e->node);
    qc_html(f, "<tr><td class=\"n\">%zu</td><td class=\"name\">", i + 1);
    if (layer != QC_NO_INDEX) qc_html(f, "<a href=\"#L%zu\">", layer + 1);
    qc_html_text(f, *e->node ? e->node : "(no name)");
    if (layer != QC_NO_INDEX) fputs("</a>", f);
    fputs("</td><td>", f);
    qc_html_text(f, e->op);
    if (scored) {
        fputs("</td><td class=\"n\">", f);
        qc_html_fixed(f, (decibels(r) ? 1 : 100) * e->metric, 2);
        fputs("</td><td class=\"n\">", f);
        qc_html_fixed(f, e->lost, 2);
    }
    fputs("</td><td class=\"n\">", f);
    qc_html_fixed(f, e->sqnr_db, 2);
    fputs("</td><td class=\"n\">", f);
    qc_html_fixed(f, e->weights_sqnr_db, 2);
    fputs("</td></tr>\n", f);
}

void qc_html_effects(FILE *f, const struct qc_report *r)
{
    if (!r->effect_count) return;
    const bool scored = isfinite(r->effects[0].metric);
    fputs("<h2>What each layer alone does to the outputs</h2>\n<p class=\"note\">", f);
    if (scored) qc_html(f, "%s on %zu samples, what it loses, and SQNR of the outputs on %zu,", decibels(r) ? "PSNR" : "Top-1 accuracy", r->eval_samples, r->effect_samples);
    else qc_html(f, "SQNR of the outputs on %zu samples", r->effect_samples);
    fputs(" when nothing but this layer is quantized: what it reads and its weights; and SQNR with its weights alone.", f);
    if (scored) fputs(" What costs most accuracy comes first; of equal ones, what has least SQNR.", f);
    if (r->fallback && r->fallback->met) fputs(" Measured before layers were given wider types.", f);
    if (r->effect_count > SHOWN) qc_html(f, " The worst %d of %zu; all are in report.json.", SHOWN, r->effect_count);
    fputs("</p>\n<div class=\"scroll\"><table><thead><tr><th class=\"n\">rank</th><th>layer</th><th>op</th>", f);
    if (scored) qc_html(f, "<th class=\"n\">%s</th><th class=\"n\">lost, %s</th>", decibels(r) ? "PSNR, dB" : "top-1, %", decibels(r) ? "dB" : "points");
    fputs("<th class=\"n\">SQNR, dB</th><th class=\"n\">weights alone, dB</th></tr></thead><tbody>\n", f);
    for (size_t i = 0; i < r->effect_count && i < SHOWN; i++) effect(f, r, i, scored);
    fputs("</tbody></table></div>\n", f);
}
