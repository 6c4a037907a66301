// SPDX-License-Identifier: Apache-2.0
#include "export/report/report_parts.h"

#include <math.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/report_charts.h"

static bool is_psnr(const struct qc_report *r)
{
    return strcmp(r->metric, "psnr") == 0;
}

/* Returns the output with the least SQNR; QC_NO_INDEX: not measured. */
static size_t worst_output_index(const struct qc_report *r)
{
    size_t at = QC_NO_INDEX;
    for (size_t i = 0; r->measured_samples && i < r->output_count; i++)
        if (!isnan(r->outputs[i].sqnr_db) && (at == QC_NO_INDEX || r->outputs[i].sqnr_db < r->outputs[at].sqnr_db))
            at = i;
    return at;
}

static void accuracy_verdict(FILE *f, const struct qc_report *r)
{
    const double by = is_psnr(r) ? 1 : 100, drop = by * (r->fp32 - r->int8);
    const char *what = is_psnr(r) ? "PSNR" : "Accuracy", *unit = is_psnr(r) ? "dB" : "points";
    if (drop <= 0)
        qc_html(f, "%s is kept", what);
    else if (r->fp32 <= r->int8_high)
        qc_html(f, "%s falls by %.2f %s, which is within the 95 %% interval", what, drop, unit);
    else
        qc_html(f, "%s falls by <b>%.2f %s</b>", what, drop, unit);
}

/* useless_db: the program warns below this SQNR that an output is of no use; good_db: above it hardly any prediction
   changes. */
static const double useless_db = 10, good_db = 30;

static void output_verdict(FILE *f, const struct qc_report *r)
{
    const size_t at = worst_output_index(r);
    if (at == QC_NO_INDEX) {
        fputs("Accuracy was not measured", f);
        return;
    }
    const double db = r->outputs[at].sqnr_db;
    if (isinf(db) && db > 0) {
        fputs("The outputs equal those of the float model", f);
        return;
    }
    qc_html(f, "%s (%s dB)",
            db >= good_db      ? "The outputs are close to those of the float model"
            : db >= useless_db ? "The outputs differ noticeably from those of the float model"
                               : "The outputs are too noisy to be useful",
            QC_FIXED(db, 1));
}

/* Writes accuracy, size, share of integers and latency in one sentence. */
static void summary_verdict(FILE *f, const struct qc_report *r)
{
    qc_html(f, "<section class=\"screen\" id=\"summary\"><header><h2 class=\"title\">%s</h2>\n<p class=\"verdict\">",
            qc_page_file_name(r->model_file));
    if (r->metric)
        accuracy_verdict(f, r);
    else
        output_verdict(f, r);
    if (!r->file_count)
        fputs("; no model was written, since a demand was not met", f);
    else if (r->model_bytes)
        qc_html(f, "; the file is %.0f %% of the original", 100 * (double)r->file_bytes[0] / (double)r->model_bytes);
    if (r->small_float_share > 0)
        qc_html(f, "; %.1f %% of multiply-adds read 8-bit floats", 100 * r->small_float_share);
    else if (r->block_share > 0)
        qc_html(f, "; %.1f %% of multiply-adds read values in blocks", 100 * r->block_share);
    else if (!isnan(r->integer_share))
        qc_html(f, "; %.1f %% of multiply-adds are in integers", 100 * r->integer_share);
    if (r->latency && r->latency->float_ms > 0 && r->latency->best_ms > 0)
        qc_html(f, "; it runs in %.0f %% of the time", 100 * r->latency->best_ms / r->latency->float_ms);
    fputs(".</p></header>\n", f);
}

static void accuracy_tile(FILE *f, const struct qc_report *r)
{
    double by = is_psnr(r) ? 1 : 100, drop = by * (r->fp32 - r->int8);
    const char *unit = is_psnr(r) ? "dB" : "%", *type = qc_report_type(r);
    qc_html(f, "<h2>%s on ", is_psnr(r) ? "PSNR" : "Top-1 accuracy");
    if (r->eval_positions) qc_html(f, "%s positions of ", QC_COUNT(r->eval_positions));
    qc_html(f, "%s sample%s</h2><div class=\"big\">%.2f → %.2f %s <small class=\"%s\">%s%.2f %s</small></div>",
            QC_COUNT(r->eval_samples), qc_plural(r->eval_samples), by * r->fp32, by * r->int8, unit,
            drop > (is_psnr(r) ? .5 : 1) ? "bad" : "", drop > 0 ? "−" : "+", fabs(drop), is_psnr(r) ? "dB" : "points");
    qc_chart_interval(f, r);
    if (isnan(r->int8_low)) return;
    qc_html(f, "<div class=\"note\">95 %% interval of %s: %.2f to %.2f %%. %s lies %s it.", type, 100 * r->int8_low,
            100 * r->int8_high, r->quantized_in_part ? "The given, partly quantized model" : "fp32",
            r->fp32 >= r->int8_low && r->fp32 <= r->int8_high ? "inside" : "outside");
    if (!isnan(r->int8_top5)) qc_html(f, " Top‑5: %.2f → %.2f %%.", 100 * r->fp32_top5, 100 * r->int8_top5);
    if (r->eval_positions)
        qc_html(f, " Negative log-likelihood: %.4f → %.4f nats per position.", r->fp32_nll, r->int8_nll);
    fputs("</div>", f);
}

static void output_tile(FILE *f, const struct qc_report *r)
{
    const size_t at = worst_output_index(r);
    if (at == QC_NO_INDEX) {
        fputs("<h2>Output SQNR</h2><div class=\"big\"><small>not measured</small></div><div class=\"note\">Float and "
              "quantized outputs are compared on samples: give <code>--data FILE</code>.</div>",
              f);
        return;
    }
    fputs(r->output_count > 1 ? "<h2>Worst output's" : "<h2>Output", f);
    qc_html(f,
            " SQNR on %zu sample%s</h2><div class=\"big\">%s dB</div><div class=\"note name\">Signal to "
            "quantization noise ratio of %s: cosine %s, largest error %s",
            r->measured_samples, qc_plural(r->measured_samples), QC_FIXED(r->outputs[at].sqnr_db, 2),
            r->outputs[at].name, QC_FIXED(r->outputs[at].cosine, 6), QC_SHORT(r->outputs[at].max_abs));
    if (!r->metric) fputs(". With <code>--eval FILE</code> the report shows accuracy.", f);
    fputs("</div>", f);
}

/* Writes a size; its unit stays on the line of its number. */
static void bytes(FILE *f, size_t n)
{
    const char *text = QC_BYTES(n), *space = strchr(text, ' ');
    qc_html(f, "%.*s\u00a0%s", (int)(space - text), text, space + 1);
}

static void size_tile(FILE *f, const struct qc_report *r)
{
    fputs("<section class=\"tile\"><h2>Size of the model file</h2><div class=\"big\">", f);
    bytes(f, r->model_bytes);
    if (r->file_count) {
        fputs(" → ", f);
        bytes(f, r->file_bytes[0]);
    }
    fputs("</div>", f);
    if (!r->file_count)
        fputs("<div class=\"note bad\">No model was written: a demand was not met.</div>", f);
    else if (r->model_bytes)
        qc_html(f, "<div class=\"note\">%.0f %% of it</div>", 100 * (double)r->file_bytes[0] / (double)r->model_bytes);
    fputs("</section>\n", f);
}

static void integers_tile(FILE *f, const struct qc_report *r)
{
    const size_t all = r->quantized_ops + r->float_op_count;
    fputs("<section class=\"tile\">", f);
    const bool floats = r->small_float_share > 0, blocks = !floats && r->block_share > 0;
    if (!isnan(r->integer_share))
        qc_html(f, "<h2>Multiply-adds in %s</h2><div class=\"big\">%.1f %%</div><div class=\"note\">%zu of %zu op%s",
                floats   ? "8-bit floats"
                : blocks ? "blocks"
                         : "integers",
                100 * (floats   ? r->small_float_share
                       : blocks ? r->block_share
                                : r->integer_share),
                r->quantized_ops, all, qc_plural(all));
    else
        qc_html(f,
                "<h2>Ops in integers</h2><div class=\"big\">%zu <small>of %zu</small></div><div class=\"note\">The "
                "share of multiply-adds is not known",
                r->quantized_ops, all);
    if (r->float_op_count)
        qc_html(f, ". %zu stay%s in float: <a href=\"#graph\">which, and why</a>", r->float_op_count,
                r->float_op_count == 1 ? "s" : "");
    fputs("</div></section>\n", f);
}

static void tiles(FILE *f, const struct qc_report *r)
{
    fputs("<div class=\"tiles\"><section class=\"tile\">", f);
    if (r->metric)
        accuracy_tile(f, r);
    else
        output_tile(f, r);
    fputs("</section>\n", f);
    size_tile(f, r);
    integers_tile(f, r);
    if (r->metric) {
        fputs("<section class=\"tile\">", f);
        output_tile(f, r);
        fputs("</section>\n", f);
    }
    qc_html_latency_tile(f, r);
    fputs("</div>\n", f);
}

static void warnings(FILE *f, const struct qc_report *r)
{
    if (!r->warning_count) return;
    qc_html(f, "<section class=\"warnings\"><h3>%zu warning%s</h3><ul>", r->warning_count, qc_plural(r->warning_count));
    for (size_t i = 0; i < r->warning_count; i++) qc_html(f, "<li>%s</li>", r->warnings[i]);
    fputs("</ul></section>\n", f);
}

/* Writes the best advice in one line; the others are on a separate screen. */
static void best_advice(FILE *f, const struct qc_report *r)
{
    fputs("<section class=\"card\"><h2>What would help</h2>\n", f);
    if (r->advice_count) {
        const struct qc_report_advice *a = &r->advice[0];
        qc_html(f, "<p>%s", a->action);
        if (a->node) {
            fputs(": ", f);
            qc_html_layer_link(f, a->node, a->layer);
        }
        qc_html(f, "</p><p class=\"figure\">%.2f → <b>%.2f dB</b></p><p class=\"note\"><a href=\"#advice\">%s</a></p>",
                a->before_db, a->after_db, r->advice_count > 1 ? "The command, and what else helps" : "The command");
    } else {
        fputs("<p>", f);
        qc_html_no_advice(f, r);
        fputs("</p>", f);
        if (r->cheaper || r->fallback || r->advice_tried)
            fputs("<p class=\"note\"><a href=\"#advice\">What was tried</a></p>", f);
    }
    fputs("</section>\n", f);
}

static void worst_layers(FILE *f, const struct qc_report *r)
{
    fputs("<section class=\"card\"><h2>Where error enters</h2>\n", f);
    if (!r->suggestion_count)
        fputs(r->measured_samples ? "<p>No op adds error to its inputs.</p>" : "<p>It was not measured.</p>", f);
    else
        fputs("<ol class=\"worst\">", f);
    for (size_t i = 0; i < r->suggestion_count; i++) {
        const struct qc_report_suggestion *s = &r->suggestions[i];
        fputs("<li><span class=\"name\">", f);
        qc_html_layer_link(f, s->node, s->layer);
        qc_html(f, " <span class=\"muted\">%s</span></span> <b>%.1f dB</b></li>", s->op, s->after_db);
    }
    if (r->suggestion_count)
        fputs("</ol><p class=\"note\"><a href=\"#advice\">Causes</a>, and <a href=\"#effects\">all layers by their "
              "effect "
              "on the outputs</a></p>",
              f);
    fputs("</section>\n", f);
}

/* Writes what was done in one paragraph. */
static void done(FILE *f, const struct qc_report *r)
{
    size_t weights = 0;
    for (size_t i = 0; i < r->layer_count; i++) weights += strcmp(r->layers[i].kind, "weight") == 0;
    qc_html(f,
            "<h3 class=\"below\">What was done</h3><p>%zu activation tensor%s and %zu weight%s were given parameters",
            r->layer_count - weights, qc_plural(r->layer_count - weights), weights, qc_plural(weights));
    if (r->data_file)
        qc_html(f, " from <b>%zu</b> of %zu samples of <b class=\"name\">%s</b>", r->data_samples, r->data_total,
                qc_page_file_name(r->data_file));
    else
        fputs(" without samples: weights are rounded to nearest, and no error was measured. With <code>--data "
              "FILE</code> rounding is compensated",
              f);
    const char *methods[2] = {NULL, NULL};
    for (size_t i = 0; i < r->layer_count; i++) methods[strcmp(r->layers[i].kind, "weight") == 0] = r->layers[i].method;
    if (methods[0]) qc_html(f, " by <b class=\"name\">%s</b>", methods[0]);
    if (methods[1]) qc_html(f, " (weights: <b class=\"name\">%s</b>)", methods[1]);
    fputs(".", f);
    for (size_t i = 0; r->trial_count > 1 && i < r->trial_count; i++) {
        const struct qc_report_trial *t = &r->trials[i];
        if (!t->chosen) continue;
        qc_html(f, " Of %zu observers that were tried on %zu samples, <b class=\"name\">%s</b>", r->trial_count,
                t->samples, t->method);
        if (i)
            qc_html(f, " is best for the outputs: %.2f dB less noise than with mse.", t->gain_db);
        else
            fputs(" was kept: no other was better for the outputs of the whole network.", f);
    }
    fputs("</p>\n", f);
}

void qc_html_summary(FILE *f, const struct qc_report *r)
{
    summary_verdict(f, r);
    tiles(f, r);
    warnings(f, r);
    fputs("<div class=\"cards\">\n", f);
    best_advice(f, r);
    worst_layers(f, r);
    fputs("</div>\n", f);
    done(f, r);
    fputs("</section>\n", f);
}
