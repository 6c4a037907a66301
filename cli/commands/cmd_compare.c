// SPDX-License-Identifier: Apache-2.0
/* qcalib compare REFERENCE MODEL --data X.h5, qcalib compare --target A,B MODEL --data X.h5 */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/file.h"
#include "base/scope.h"
#include "cli/commands/cmd.h"
#include "cli/outputs.h"
#include "cli/terminal/screen.h"
#include "evaluate/evaluate.h"
#include "export/report/report.h"
#include "quantize/options/option_value.h"
#include "quantize/report/command_text.h"

enum { SHOWN = 8 };

/* Returns the scale of the second model's value; 0 if it is real or has several scales. */
static double step_of_layer(const struct qc_compared_models *c, size_t i)
{
    const struct qc_qparams *s = qc_graph_parameters(c->second.graph, c->pairs.values[i].second);
    return s && s->count == 1 ? (double)s->scale[0] : 0;
}

static double most_steps(const struct qc_compared_models *c, size_t i)
{
    const double step = step_of_layer(c, i);
    const struct qc_qparams *a = qc_graph_parameters(c->first.graph, c->pairs.values[i].first),
                            *b = qc_graph_parameters(c->second.graph, c->pairs.values[i].second);
    if (!(step > 0)) return (double)NAN;
    const bool same = a && b && a->count == 1 && b->count == 1 && a->scale[0] == b->scale[0] &&
                      a->zero_point[0] == b->zero_point[0]; /* then differences of levels are whole steps */
    return same ? (double)c->result->steps[i].most : c->result->pairs[i].max_abs / step;
}

static struct qc_json *comparison_json(const struct qc_compared_models *c, const struct qc_target_pair *targets,
                                       const struct qc_warnings *w)
{
    struct qc_json *root = qc_json_object(), *outputs = qc_json_array(), *layers = qc_json_array(),
                   *rounding = qc_json_array(), *accumulator = qc_json_array(), *overflows = qc_json_array();
    for (int k = 0; k < 2; k++) {
        qc_json_add(rounding, qc_json_string(qc_contract_info(c->how[k].rounding)->name));
        const struct qc_accumulator *a = &c->how[k].accumulator;
        qc_json_add(accumulator, a->bits % 32 ? QC_JSON("bits %u overflow %s", a->bits,
                                                        a->overflow == QC_OVERFLOW_SATURATE ? "saturate" : "wrap")
                                              : qc_json_null());
        qc_json_add(overflows, qc_overflows_json(&c->result->overflows[k]));
    }
    for (size_t k = 0; k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        qc_json_add(outputs, QC_JSON("name %s equal %hhd differing %zu elements %zu max_abs %g sqnr_db %g cosine %g",
                                     c->second.graph->outputs[k].name, (bool)(c->result->differing[k] == 0),
                                     c->result->differing[k], c->result->elements[k],
                                     e->count ? e->max_abs : (double)NAN, qc_error_sqnr_db(e), qc_error_cosine(e)));
    }
    for (size_t i = 0; i < c->pairs.count; i++) {
        const struct qc_error *e = &c->result->pairs[i];
        const struct qc_steps *s = &c->result->steps[i];
        const struct qc_channel_factors *f = &c->result->factors[i];
        const bool steps_known = step_of_layer(c, i) > 0;
        struct qc_json *o = qc_json_object(), *steps = steps_known ? qc_json_array() : qc_json_null();
        for (int k = 0; steps_known && k < QC_STEPS; k++) qc_json_add(steps, qc_json_integer((int64_t)s->of[k]));
        qc_json_put(
            o,
            "name %s op %s matched %s mse %g sqnr_db %g cosine %g max_abs %g max_steps %g elements %zu differing %zu",
            c->pairs.layers[i].name, qc_op_info(c->pairs.layers[i].op)->name,
            c->pairs.layers[i].by_name ? "name" : "order", e->count ? e->noise / (double)e->count : (double)NAN,
            qc_error_sqnr_db(e), qc_error_cosine(e), e->max_abs, most_steps(c, i), e->count, s->differing);
        if (f->found) qc_json_set(o, "channels_scaled", QC_JSON("least %g most %g", f->least, f->most));
        qc_json_set(o, "steps", steps);
        qc_json_add(layers, o);
    }
    if (targets->of[0])
        qc_json_set(root, "targets", qc_json_pair(qc_json_copy(targets->of[0]), qc_json_copy(targets->of[1])));
    qc_json_set(root, "rounding", rounding);
    qc_json_set(root, "accumulator", accumulator);
    qc_json_set(root, "overflows", overflows);
    qc_json_set(root, "samples", qc_json_integer((int64_t)c->result->samples));
    qc_json_set(root, "outputs", outputs);
    qc_json_set(root, "layers", layers);
    qc_json_set(root, "warnings", qc_warnings_json(w));
    return root;
}

static void print_layer(const struct qc_compared_models *c, size_t i)
{
    const struct qc_error *e = &c->result->pairs[i];
    const struct qc_steps *d = &c->result->steps[i];
    const double s = most_steps(c, i), all = e->count ? (double)e->count : 1;
    const char *name = c->pairs.layers[i].name;
    const double db = qc_error_sqnr_db(e);
    if (isinf(db))
        qc_say(db > 0 ? "   equal" : "    -inf");
    else if (isnan(db))
        qc_say("       -");
    else
        qc_say("%8.2f", db);
    qc_say("  %9.6f  %9.3g  ", qc_error_cosine(e), e->max_abs);
    if (isnan(s))
        qc_say("%6s  %7.3f %%  %27s", "-", 100 * (double)d->differing / all, "");
    else
        qc_say("%6.1f  %7.3f %%  %7.3f %%  %6.3f %%  %5.2f %%", s, 100 * (double)d->differing / all,
               100 * (double)d->of[1] / all, 100 * (double)d->of[2] / all, 100 * (double)d->of[3] / all);
    qc_say("  %-12s ", qc_op_info(c->pairs.layers[i].op)->name);
    qc_say("%s\n", name ? name : "(no name)");
}

/* Lists the indices of the layers with the lowest SQNR, lowest first; without those whose channels are scaled. */
static size_t worst(size_t *list, size_t most, const struct qc_compared_models *c)
{
    size_t count = 0;
    for (size_t i = 0; i < c->pairs.count; i++) {
        double db = qc_error_sqnr_db(&c->result->pairs[i]);
        size_t at = count;
        while (at > 0 && qc_error_sqnr_db(&c->result->pairs[list[at - 1]]) > db) at--;
        if (isnan(db) || at >= most || c->result->factors[i].found) continue;
        if (count < most) count++;
        memmove(list + at + 1, list + at, (count - at - 1) * sizeof *list);
        list[at] = i;
    }
    return count;
}

static void print_comparison(const struct qc_compared_models *c, const struct qc_cli_options *o)
{
    size_t list[SHOWN];
    for (size_t k = 0; k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        qc_say("output %s", c->second.graph->outputs[k].name);
        if (!c->result->differing[k])
            qc_say(": equal, bit for bit, on %zu samples\n", c->result->samples);
        else if (!e->count)
            qc_say(": %" PRIu64 " of %" PRIu64 " elements differ on %zu samples\n", c->result->differing[k],
                   c->result->elements[k], c->result->samples);
        else
            qc_say(": SQNR %.2f dB, cosine %.6f, at most %.4g apart, %" PRIu64 " of %" PRIu64
                   " elements differ on %zu samples\n",
                   qc_error_sqnr_db(e), qc_error_cosine(e), e->max_abs, c->result->differing[k], c->result->elements[k],
                   c->result->samples);
    }
    const bool all = o->verbose || c->both;
    fputs(qc_style(stdout, QC_STYLE_BOLD), stdout);
    qc_say(" SQNR dB     cosine  max error   steps  differing    1 step   2 steps   more  op           value");
    puts(qc_style(stdout, QC_STYLE_PLAIN));
    if (all)
        for (size_t i = 0; i < c->pairs.count; i++)
            if (!c->result->factors[i].found) print_layer(c, i);
    size_t shown = all ? 0 : worst(list, SHOWN, c);
    for (size_t i = 0; i < shown; i++) print_layer(c, list[i]);
    /* Name the layers whose channels have other factors in the second model: their elements cannot be compared */
    for (size_t i = 0; i < c->pairs.count; i++) {
        const struct qc_channel_factors *f = &c->result->factors[i];
        if (!f->found) continue;
        qc_say("not compared: the channels of %s '%s' are scaled by %.3g to %.3g in the second model\n",
               qc_op_info(c->pairs.layers[i].op)->name, c->pairs.layers[i].name ? c->pairs.layers[i].name : "(no name)",
               f->least, f->most);
    }
    if (!all && c->pairs.count > shown)
        qc_say("%zu layers compared, the worst shown; -v or --json shows all\n", c->pairs.count);
}

/* Writes the viewer with the comparison as its record. */
static bool write_comparison_page(const struct qc_compared_models *c, const struct qc_target_pair *targets,
                                  const struct qc_warnings *w, const struct qc_cli_options *o, struct qc_status *st)
{
    const char *file[3] = {c->first.path, c->second.path, qc_dataset_file(c->data)}, *command;
    char sha[3][65], verdict[160];
    size_t size, equal_layers = 0, equal_outputs = 0;
    const size_t outputs = c->second.graph->output_count;
    if (!qc_sha256_file(sha[0], file[0], st) || !qc_sha256_file(sha[1], file[1], st) ||
        !qc_data_file_sha256(sha[2], file[2], st) ||
        !qc_command_text(&command, o->job.arena, &o->job, o->operands.items, o->operands.count, NULL, st))
        return false;
    for (size_t i = 0; i < c->pairs.count; i++) equal_layers += !c->result->steps[i].differing;
    for (size_t k = 0; k < outputs; k++) equal_outputs += !c->result->differing[k];
    qc_text(verdict, sizeof verdict, "%zu of %zu output%s and %zu of %zu layer%s are equal, bit for bit", equal_outputs,
            outputs, qc_plural(outputs), equal_layers, c->pairs.count, qc_plural(c->pairs.count));
    struct qc_json *page = comparison_json(c, targets, w), *models = qc_json_array();
    for (int k = 0; k < 2; k++) qc_json_add(models, QC_JSON("file %s sha256 %s", file[k], sha[k]));
    qc_json_put(page, "kind %s version %s command %s tolerance %g contracts %hhd", "comparison", QC_VERSION, command,
                o->job.demand.tolerance, c->contracts);
    qc_json_set(page, "models", models);
    qc_json_set(page, "model", QC_JSON("file %s", file[1]));
    qc_json_set(page, "data", QC_JSON("file %s sha256 %s", file[2], sha[2]));
    qc_json_set(page, "verdict", QC_JSON("text %s", verdict));
    qc_json_set(page, "options", qc_options_json(&o->job));
    QC_FREED char *text = qc_json_is_whole(page) ? qc_page(&size, page, st) : NULL;
    qc_json_free(page);
    if (!text) return qc_fail_memory(st, 1); /* unless a reason is given already */
    return qc_file_write(o->html, text, size, st);
}

static bool check_tolerance(const struct qc_compared_models *c, double tolerance, struct qc_status *st)
{
    for (size_t k = 0; !isnan(tolerance) && k < c->second.graph->output_count; k++) {
        const struct qc_error *e = &c->result->outputs[k];
        bool numbers = e->count > 0;
        if (numbers ? !(e->max_abs <= tolerance) : c->result->differing[k] != 0)
            return numbers
                       ? qc_fail(st, QC_DEMAND, "--tolerance %g: output '%s' differs by %g", tolerance,
                                 c->second.graph->outputs[k].name, e->max_abs)
                       : qc_fail(st, QC_DEMAND,
                                 "--tolerance %g: %" PRIu64 " of %" PRIu64 " elements of output '%s' differ", tolerance,
                                 c->result->differing[k], c->result->elements[k], c->second.graph->outputs[k].name);
    }
    return true;
}

/* Operands are two models, or one model for two targets. */
static bool check_compared(const struct qc_cli_options *o, struct qc_status *st)
{
    const bool targets = o->job.given[QC_OPTION_TARGET];
    if (targets && o->operands.count != 1)
        return qc_fail(st, QC_USAGE, "compare --target A,B takes one MODEL; see 'qcalib help compare'");
    if (targets && o->html)
        return qc_fail(st, QC_USAGE, "--html is a page of two models, not of two targets; leave out one");
    if (!targets && o->operands.count != 2)
        return qc_fail(st, QC_USAGE, "compare needs REFERENCE MODEL; see 'qcalib help compare'");
    return targets || !o->job.data.stats ||
           qc_fail(st, QC_USAGE, "--stats is for compare --target A,B, which quantizes; leave it out");
}

bool qc_cmd_compare(const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_compared_models c = {.contracts = false};
    struct qc_target_pair targets = {.rounding = NULL};
    struct qc_options job = o->job;
    const bool of_targets = o->job.given[QC_OPTION_TARGET];
    struct qc_warnings *w = NULL;
    struct qc_progress *progress = NULL;
    if (!o->job.data.file)
        return qc_fail(st, QC_USAGE, "compare needs --data FILE with samples; see 'qcalib help compare'");
    if (!check_compared(o, st)) return false;
    struct qc_file_list outputs = {0};
    bool ok = qc_outputs_apart(&outputs, NULL, 0, NULL, o, st) && (!o->html || qc_output_check(o->html, st)) &&
              qc_warnings_new(&w, st) && qc_progress_bar_new(&progress, o, st) &&
              (!of_targets || qc_quantize_for_targets(&targets, o->operands.items[0], &o->job, progress, w, st));
    if (of_targets && !job.graph.rounding) job.graph.rounding = targets.rounding;
    struct qc_model_source models[2];
    for (int k = 0; k < 2; k++)
        models[k] = (struct qc_model_source){.file = of_targets ? targets.file[k] : o->operands.items[k],
                                             .outputs = outputs.items,
                                             .output_count = outputs.count};
    ok = ok && qc_compare_models(&c, models, &(struct qc_data_source){.file = job.data.file}, &job, progress, w, st);
    const bool two = c.how[0].accumulator.bits && c.how[0].accumulator.bits < 32;
    for (int k = 0; ok && k < 2; k++)
        qc_warn_overflows(w, &c.result->overflows[k], c.how[k].accumulator.bits,
                          two ? qc_base_name(k ? c.second.path : c.first.path) : NULL);
    ok = ok && (!o->html || write_comparison_page(&c, &targets, w, o, st));
    const bool compared = ok;
    if (ok && o->json)
        ok = qc_print_json(comparison_json(&c, &targets, w), st);
    else if (ok && !o->quiet) {
        /* the differences between the targets */
        for (size_t i = 0; i < qc_json_size(targets.of[0]); i++) {
            const char *first = qc_json_text(qc_json_at(targets.of[0], i)),
                       *second = qc_json_text(qc_json_at(targets.of[1], i));
            if (!i || strcmp(first, second) != 0)
                qc_say("%-22s %-26s %s\n", i ? qc_json_key(targets.of[0], i) : "", first, second);
        }
        print_comparison(&c, o);
    }
    ok = ok && check_tolerance(&c, o->job.demand.tolerance, st);
    if (compared) qc_warnings_print(w, o);
    qc_compared_models_close(&c);
    qc_target_pair_close(&targets);
    qc_progress_bar_free(progress);
    qc_warnings_free(w);
    return ok;
}
