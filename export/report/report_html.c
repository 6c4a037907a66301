// SPDX-License-Identifier: Apache-2.0
/* report.html: the page. Its plots and tables are in report_charts.h and report_layers.h, what it shares with other
 * pages in report_page.h. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "export/report/html.h"
#include "export/report/report_charts.h"
#include "export/report/report_effects.h"
#include "export/report/report_layers.h"
#include "export/report/report_page.h"
#include "export/report/report_size.h"

/* What was done, in one paragraph. */
static void done(FILE *f, const struct qc_report *r)
{
    size_t weights = 0;
    for (size_t i = 0; i < r->layer_count; i++) weights += strcmp(r->layers[i].kind, "weight") == 0;
    fputs("<header><h1>", f);
    qc_html_text(f, qc_page_file_name(r->model_file));
    fputs("</h1>\n<p>", f);
    qc_html(f, "%zu op%s in integers, %zu in float. %zu activation tensor%s and %zu weight%s were given parameters",
            r->quantized_ops, r->quantized_ops == 1 ? "" : "s", r->float_op_count, r->layer_count - weights,
            r->layer_count - weights == 1 ? "" : "s", weights, weights == 1 ? "" : "s");
    if (r->data_file) {
        qc_html(f, " from <b>%zu</b> of %zu samples of ", r->data_samples, r->data_total);
        qc_page_name(f, qc_page_file_name(r->data_file));
    } else {
        fputs(" without samples: weights are rounded to nearest, and no error was measured. With --data FILE rounding "
              "makes good its errors",
              f);
    }
    const char *methods[2] = {NULL, NULL};
    for (size_t i = 0; i < r->layer_count; i++) methods[strcmp(r->layers[i].kind, "weight") == 0] = r->layers[i].method;
    if (methods[0]) {
        fputs(" by ", f);
        qc_page_name(f, methods[0]);
    }
    if (methods[1]) {
        fputs(" (weights: ", f);
        qc_page_name(f, methods[1]);
        fputs(")", f);
    }
    fputs(".", f);
    for (size_t i = 0; i < r->trial_count; i++) {
        const struct qc_report_trial *t = &r->trials[i];
        if (!t->chosen) continue;
        qc_html(f, " Of %zu observers that were tried on %zu samples, ", r->trial_count, t->samples);
        qc_page_name(f, t->method);
        if (i)
            qc_html(f, " is worth most to the outputs: %.2f dB less noise than with mse%s.", t->gain_db,
                    t->gain_db < t->worth_db ? ", and it cuts off less of samples that were not seen" : "");
        else
            fputs(" was kept: no other was better for the outputs.", f);
    }
    fputs("</p></header>\n<main>\n", f);
}

static bool is_psnr(const struct qc_report *r)
{
    return strcmp(r->metric, "psnr") == 0;
}

static void accuracy_tile(FILE *f, const struct qc_report *r)
{
    double by = is_psnr(r) ? 1 : 100, drop = by * (r->fp32 - r->int8);
    const char *unit = is_psnr(r) ? "dB" : "%";
    qc_html(f, "<h2>%s on %zu samples</h2><div class=\"big\">%.2f → %.2f %s <small class=\"%s\">",
            is_psnr(r) ? "PSNR" : "Top-1 accuracy", r->eval_samples, by * r->fp32, by * r->int8, unit,
            drop > (is_psnr(r) ? .5 : 1) ? "bad" : "");
    qc_html(f, "%s%.2f %s</small></div>", drop > 0 ? "−" : "+", fabs(drop), is_psnr(r) ? "dB" : "points");
    qc_chart_interval(f, r);
    if (isnan(r->int8_low)) return;
    qc_html(f, "<div class=\"note\">95 %% interval of int8: %.2f to %.2f %%. fp32 lies %s it.", 100 * r->int8_low,
            100 * r->int8_high, r->fp32 >= r->int8_low && r->fp32 <= r->int8_high ? "inside" : "outside");
    if (!isnan(r->int8_top5)) qc_html(f, " Top‑5: %.2f → %.2f %%.", 100 * r->fp32_top5, 100 * r->int8_top5);
    if (r->eval_positions)
        qc_html(f, " Negative log-likelihood of %zu positions: %.4f → %.4f nats.", r->eval_positions, r->fp32_nll,
                r->int8_nll);
    fputs("</div>", f);
}

static void output_tile(FILE *f, const struct qc_report *r)
{
    double worst = (double)INFINITY;
    size_t at = 0;
    for (size_t i = 0; i < r->output_count; i++) {
        if (!(r->outputs[i].sqnr_db < worst)) continue;
        worst = r->outputs[i].sqnr_db;
        at = i;
    }
    if (!r->output_count || !r->measured_samples) {
        fputs("<h2>Output SQNR</h2><div class=\"big\"><small>not measured</small></div><div class=\"note\">Float and "
              "int8 are compared on samples: give <code>--data FILE</code>.</div>",
              f);
        return;
    }
    qc_html(f, "<h2>%s SQNR on %zu samples</h2><div class=\"big\">", r->output_count > 1 ? "Worst output's" : "Output",
            r->measured_samples);
    qc_html_fixed(f, r->outputs[at].sqnr_db, 2);
    fputs(" dB</div><div class=\"note name\">", f);
    qc_html_text(f, r->outputs[at].name);
    fputs(": cosine ", f);
    qc_html_fixed(f, r->outputs[at].cosine, 6);
    fputs(", largest error ", f);
    qc_html_short(f, r->outputs[at].max_abs);
    if (!r->metric) fputs(". With <code>--eval FILE</code> the report shows accuracy.", f);
    fputs("</div>", f);
}

static void tiles(FILE *f, const struct qc_report *r)
{
    fputs("<div class=\"tiles\"><section class=\"tile\">", f);
    if (r->metric)
        accuracy_tile(f, r);
    else
        output_tile(f, r);
    fputs("</section>\n<section class=\"tile\"><h2>Size of the model file</h2><div class=\"big\">", f);
    qc_html_bytes(f, r->model_bytes);
    if (r->file_count) {
        fputs(" → ", f);
        qc_html_bytes(f, r->file_bytes[0]);
        if (r->model_bytes)
            qc_html(f, "</div><div class=\"note\">%.0f %% of it</div>",
                    100 * (double)r->file_bytes[0] / (double)r->model_bytes);
        else
            fputs("</div>", f);
    } else
        fputs("</div><div class=\"note bad\">No model was written: a demand was not met.</div>", f);
    fputs("</section>\n<section class=\"tile\">", f);
    if (r->metric)
        output_tile(f, r);
    else
        qc_html(f, "<h2>Ops in integers</h2><div class=\"big\">%zu <small>of %zu</small></div>", r->quantized_ops,
                r->quantized_ops + r->float_op_count);
    fputs("</section></div>\n", f);
}

static void warnings(FILE *f, const struct qc_report *r)
{
    if (!r->warning_count) return;
    qc_html(f, "<section class=\"warnings\"><h3>%zu warning%s</h3><ul>", r->warning_count,
            r->warning_count == 1 ? "" : "s");
    for (size_t i = 0; i < r->warning_count; i++) {
        fputs("<li>", f);
        qc_html_text(f, r->warnings[i]);
        fputs("</li>", f);
    }
    fputs("</ul></section>\n", f);
}

static void layer_link(FILE *f, const char *node, size_t layer)
{
    if (layer != QC_NO_INDEX) qc_html(f, "<a href=\"#L%zu\">", layer + 1);
    qc_html_text(f, node);
    if (layer != QC_NO_INDEX) fputs("</a>", f);
}

static void one_advice(FILE *f, const struct qc_report *r, const struct qc_report_advice *a)
{
    fputs("<li><h3>", f);
    qc_html_text(f, a->action);
    if (a->node) {
        fputs(": ", f);
        layer_link(f, a->node, a->layer);
    }
    qc_html(f, "</h3><p>Outputs %.2f → <b>%.2f dB</b>; on samples held back %.2f → %.2f dB", a->before_db, a->after_db,
            a->held_before_db, a->held_after_db);
    for (size_t i = 0; r->output_count > 1 && i < r->output_count; i++) {
        fputs(i ? ", " : ". ", f);
        qc_html_text(f, r->outputs[i].name);
        qc_html(f, " %.2f → %.2f", a->outputs_before_db[i], a->outputs_after_db[i]);
    }
    fputs("</p>", f);
    qc_page_command(f, a->command);
    fputs("</li>\n", f);
}

/* What was tried and helps; where there is nothing, why. */
static void advice(FILE *f, const struct qc_report *r)
{
    static const char *const why[] = {
        [QC_ADVICE_NOT_ASKED] = "Nothing was tried: <code>--advice off</code>.",
        [QC_ADVICE_NO_DATA] = "Nothing was tried: commands are tried on the samples of <code>--data</code>.",
        [QC_ADVICE_NOT_NEEDED] = "Nothing is lost that would need mending.",
        [QC_ADVICE_MET] = "The demand is met with the wider types below.",
        [QC_ADVICE_SIZED] = "Nothing was tried: <code>--size</code> has chosen the types.",
        [QC_ADVICE_LARGE] = "Nothing was tried: the model is large or memory is limited; <code>--advice on</code>.",
        [QC_ADVICE_SHARED] = "Nothing was tried: several processes share the data.",
    };
    fputs("<h2>What helps</h2>\n", f);
    if (r->advice_state != QC_ADVICE_TRIED) qc_html(f, "<p>%s</p>\n", why[r->advice_state]);
    if (r->cheaper) {
        fputs("<p class=\"note\">For a smaller file:</p><ol class=\"hurts helps\">\n", f);
        one_advice(f, r, r->cheaper);
        fputs("</ol>\n", f);
    }
    if (r->advice_state != QC_ADVICE_TRIED) return;
    if (!r->advice_count) {
        qc_html(f, "<p>No single option: %zu command%s tried, and none brings the outputs nearer by 0.3 dB.</p>\n",
                r->advice_tried, r->advice_tried == 1 ? " was" : "s were");
        return;
    }
    qc_html(
        f,
        "<p class=\"note\">%zu commands were tried in this run. These bring the outputs nearer to the float "
        "network by 0.3 dB or more, on %zu samples and on others that were held back.</p><ol class=\"hurts helps\">\n",
        r->advice_tried, r->measured_samples);
    for (size_t i = 0; i < r->advice_count; i++) one_advice(f, r, &r->advice[i]);
    fputs("</ol>\n", f);
}

static void suggestions(FILE *f, const struct qc_report *r)
{
    if (r->fallback && r->fallback->met && !r->suggestion_count) return;
    fputs("<h2>What hurts most</h2>\n", f);
    if (!r->suggestion_count) {
        fputs(r->measured_samples
                  ? "<p>No op adds error to what it reads.</p>\n"
                  : "<p>Nothing was measured: layers are compared on the samples of <code>--data</code>.</p>\n",
              f);
        return;
    }
    fputs("<p class=\"note\">Where the relative error grows most between what an op reads and what it makes, those "
          "with a known cause first.</p><ol class=\"hurts\">\n",
          f);
    for (size_t i = 0; i < r->suggestion_count; i++) {
        const struct qc_report_suggestion *s = &r->suggestions[i];
        qc_html(f, "<li><h3>%zu. ", i + 1);
        layer_link(f, s->node, s->layer);
        fputs(" <span class=\"muted\">", f);
        qc_html_text(f, s->op);
        fputs("</span></h3><p>SQNR ", f);
        if (isfinite(s->before_db)) qc_html(f, "%.1f → ", s->before_db);
        qc_html(f, "<b>%.1f dB</b>: ", s->after_db);
        qc_html_text(f, s->why);
        fputs(".</p></li>\n", f);
    }
    fputs("</ol>\n", f);
}

static int suggested(const struct qc_report *r, size_t layer)
{
    for (size_t i = 0; i < r->suggestion_count; i++)
        if (r->suggestions[i].layer == layer) return (int)i + 1;
    return 0;
}

/* The activations that were measured. */
static bool network(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    struct qc_network_point *points = calloc(r->layer_count + 1, sizeof *points);
    size_t count = 0;
    if (!points) return qc_fail_memory(st, (r->layer_count + 1) * sizeof *points);
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        if (strcmp(l->kind, "activation") != 0 || !isfinite(l->sqnr_db)) continue;
        points[count++] = (struct qc_network_point){.number = i + 1,
                                                    .name = l->name,
                                                    .op = l->op,
                                                    .sqnr_db = l->sqnr_db,
                                                    .rounding_db = l->alone_db,
                                                    .isolated_db = l->isolated_db,
                                                    .cosine = l->cosine,
                                                    .mark = suggested(r, i)};
    }
    fputs("<h2>Error along the network</h2>\n", f);
    qc_chart_network_legend(f, points, count);
    fputs("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Error along the network\">", f);
    qc_chart_network(f, points, count, 1072, "wide");
    qc_chart_network(f, points, count, 366, "narrow");
    fputs("</div>\n", f);
    if (!count) fputs("<p>No layer was measured.</p>\n", f);
    free(points);
    return true;
}

/* One line a reason. */
static void islands(FILE *f, const struct qc_report *r)
{
    if (!r->float_op_count) return;
    qc_html(f,
            "<h3 style=\"margin-top:14px\">%zu op%s stay%s in float</h3>\n<div "
            "class=\"scroll\"><table><thead><tr><th>reason</th><th "
            "class=\"n\">ops</th><th>names</th></tr></thead><tbody>\n",
            r->float_op_count, r->float_op_count == 1 ? "" : "s", r->float_op_count == 1 ? "s" : "");
    for (size_t i = 0; i < r->float_op_count; i++) {
        const char *reason = r->float_ops[i].reason;
        size_t count = 0, first = 0;
        while (strcmp(r->float_ops[first].reason, reason) != 0) first++;
        if (first < i) continue;
        for (size_t k = i; k < r->float_op_count; k++) count += strcmp(r->float_ops[k].reason, reason) == 0;
        fputs("<tr><td>", f);
        qc_html_text(f, reason);
        qc_html(f, "</td><td class=\"n\">%zu</td><td class=\"name\">", count);
        for (size_t k = i, shown = 0; k < r->float_op_count && shown <= 6; k++) {
            if (strcmp(r->float_ops[k].reason, reason) != 0) continue;
            if (shown++ == 6) {
                qc_html(f, ", … and %zu more", count - 6);
                break;
            }
            if (shown > 1) fputs(", ", f);
            qc_html_text(f, r->float_ops[k].name);
            fputs(" (", f);
            qc_html_text(f, r->float_ops[k].op);
            fputs(")", f);
        }
        fputs("</td></tr>\n", f);
    }
    fputs("</tbody></table></div>\n", f);
}

static bool graph(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    if (!r->node_count) return true;
    fputs("<h2>The graph as it was partitioned</h2>\n<ul class=\"legend\"><li><svg width=\"26\" height=\"12\"><rect "
          "class=\"span\" x=\"1\" y=\"1\" width=\"24\" height=\"10\" rx=\"3\" style=\"stroke:var(--main)\"/></svg>"
          "in integers; what is computed in one piece is one box</li><li><svg width=\"26\" height=\"12\"><rect x=\"1\" "
          "y=\"1\" width=\"24\" height=\"10\" rx=\"3\" "
          "style=\"fill:var(--float-soft);stroke:var(--float);stroke-dasharray:4 2\"/></svg>in float; hover for the "
          "reason</li><li><svg width=\"26\" height=\"12\"><rect x=\"1\" y=\"1\" width=\"24\" height=\"10\" rx=\"3\" "
          "style=\"fill:none;stroke:var(--axis)\"/></svg>"
          "inputs, outputs, and whole numbers such as shapes</li><li><svg width=\"26\" height=\"12\"><rect x=\"1\" "
          "y=\"1\" width=\"24\" height=\"10\" rx=\"3\" style=\"fill:none;stroke:var(--bad);"
          "stroke-width:2\"/></svg>hurts most</li></ul>\n"
          "<div class=\"graph\" tabindex=\"0\" role=\"region\" aria-label=\"Graph\">",
          f);
    if (!qc_chart_graph(f, r, st)) return false;
    fputs("</div>\n", f);
    islands(f, r);
    return true;
}

static void layers(FILE *f, const struct qc_report *r)
{
    fputs("<h2>Layers</h2>\n<p class=\"note\">Every value that was quantized. SQNR is of the tensor against the float "
          "network; a dash was not measured.</p>\n",
          f);
    qc_html_layer_table(f, r);
    fputs("<h2>Layer by layer</h2>\n", f);
    qc_html_layer_details(f, r);
}

static bool again(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    fputs("<h2>To get the same again</h2>\n", f);
    qc_page_command(f, r->command);
    fputs("<dl style=\"margin-top:10px\"><dt>version</dt><dd>qcalib ", f);
    qc_html_text(f, r->version);
    fputs("</dd>", f);
    qc_page_file(f, "model", r->model_file, r->model_sha256);
    if (r->data_file) qc_page_file(f, "data", r->data_file, r->data_sha256);
    if (r->statistics_file) qc_page_file(f, "statistics", r->statistics_file, r->statistics_sha256);
    if (r->metric) qc_page_file(f, "labelled data", r->eval_file, NULL);
    for (size_t i = 0; i < r->file_count; i++) qc_page_file(f, "written", r->files[i], NULL);
    fputs("</dl>\n", f);
    return qc_page_options(f, r->options, st);
}

static bool page(FILE *f, const struct qc_report *r, struct qc_status *st)
{
    qc_page_begin(f, qc_page_file_name(r->model_file), " in int8: qcalib");
    done(f, r);
    tiles(f, r);
    warnings(f, r);
    qc_html_fallback(f, r);
    qc_html_size(f, r);
    advice(f, r);
    suggestions(f, r);
    if (!network(f, r, st)) return false;
    qc_html_effects(f, r);
    qc_html_accumulators(f, r);
    layers(f, r);
    if (!graph(f, r, st) || !again(f, r, st)) return false;
    qc_page_end(f, "Written by qcalib. The same numbers are in report.json and layers.csv; how long things took is "
                   "only in report.json.");
    return true;
}

char *qc_report_html(size_t *size, const struct qc_report *r, struct qc_status *st)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, size);
    bool ok = f && page(f, r, st);
    if (f && fclose(f) == 0 && ok) return text;
    free(text);
    qc_fail_memory(st, 1);
    return NULL;
}
