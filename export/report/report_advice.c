// SPDX-License-Identifier: Apache-2.0
#include "export/report/report_parts.h"

#include <math.h>

#include "export/report/html.h"

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
static void advice(FILE *f, const struct qc_report *r)
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
    qc_html_size(f, r);
    const bool ok = qc_html_latency(f, r, st);
    qc_html_fallback(f, r);
    advice(f, r);
    suggestions(f, r);
    qc_html_accumulators(f, r);
    fputs("</section>\n", f);
    return ok;
}
