// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "cli/terminal/screen.h"
#include "cli/terminal/summary.h"
#include "rewrite/passes/costs.h"

enum { WORST = 3, KINDS = 4 };

/* Prints one line for each reason: "4 Softmax, 2 Reshape: no pattern matches". */
static void print_float_ops(const struct qc_report *r, bool with_report)
{
    size_t kinds = 0, printed = 0;
    const char *reasons[KINDS];
    for (int others = 0; others < 2; others++) /* first the choices made for speed */
        for (size_t i = 0; i < r->float_op_count; i++) {
            const char *reason = r->float_ops[i].reason;
            size_t k = 0;
            if ((strncmp(reason, QC_FASTER_IN_FLOAT, strlen(QC_FASTER_IN_FLOAT)) != 0) != others) continue;
            while (k < kinds && strcmp(reasons[k], reason) != 0) k++;
            if (k == kinds && kinds < KINDS) reasons[kinds++] = reason;
        }
    for (size_t k = 0; k < kinds; k++) {
        size_t same = 0, others = 0;
        const char *op = "";
        for (size_t i = 0; i < r->float_op_count; i++) {
            if (strcmp(r->float_ops[i].reason, reasons[k]) != 0) continue;
            if (!*op) op = r->float_ops[i].op;
            if (strcmp(op, r->float_ops[i].op) == 0)
                same++;
            else
                others++;
        }
        qc_say("            float: %zu %s", same, op);
        if (others) qc_say(" and %zu other op%s", others, qc_plural(others));
        qc_say(", %s\n", reasons[k]);
        printed += same + others;
    }
    if (printed < r->float_op_count)
        qc_say("            float: %zu more, see %s\n", r->float_op_count - printed,
               with_report ? "the report" : "--json");
}

static void print_accumulator(const struct qc_report_accumulator *a)
{
    uint64_t overflows, results;
    qc_report_overflowed(&overflows, &results, a);
    qc_say("accumulator %u bits, %s: ", a->bits, a->overflow);
    if (!a->samples)
        qc_say("overflows not counted, there are no samples");
    else if (!a->layer_count)
        qc_say("no layer can overflow");
    else
        qc_say("%" PRIu64 " of %" PRIu64 " results overflowed in the %zu layer%s that can", overflows, results,
               a->layer_count, qc_plural(a->layer_count));
    qc_say("; %zu scale%s raised, %zu channel%s bounded\n", a->scales_raised, qc_plural(a->scales_raised),
           a->channels_bounded, qc_plural(a->channels_bounded));
}

/* Prints the reference of errors and accuracy. */
static void print_reference(const struct qc_report *r)
{
    if (!r->quantized_in_part) return;
    if (r->unrounded)
        qc_say("reference   the model without the rounding of %zu of its values", r->unrounded);
    else
        qc_say("reference   the given model, which is partly quantized");
    if (r->linear_left) qc_say("; %zu QuantizeLinear and\n            DequantizeLinear stay in it", r->linear_left);
    qc_say("\n");
}

/* Prints the worst value that is judged in place of outputs whose rows change places. */
static void print_before_ordering(const struct qc_report *r)
{
    const struct qc_report_output *worst = NULL;
    for (size_t i = 0; i < r->output_count; i++) {
        const struct qc_report_output *o = &r->outputs[i];
        if (o->judging != QC_NOT_JUDGED && !isnan(o->sqnr_db) && (!worst || o->sqnr_db < worst->sqnr_db)) worst = o;
    }
    qc_say(": judged before its rows are put in order");
    if (worst && isfinite(worst->sqnr_db))
        qc_say(", at %s: SQNR %.2f dB over %zu sample%s", worst->name, worst->sqnr_db, r->measured_samples,
               qc_plural(r->measured_samples));
    qc_say("\n");
}

static void print_accuracy(const struct qc_report *r)
{
    const char *real = r->quantized_in_part ? "reference" : "float", *type = qc_report_type(r),
               *plural = qc_plural(r->measured_samples);
    if (!r->metric) {
        for (size_t i = 0; i < r->output_count && i < 2 && r->outputs[i].judging != QC_ONLY_JUDGED; i++) {
            qc_say("output      %s", r->outputs[i].name);
            if (!r->measured_samples)
                qc_say(": not measured, there is no --data\n");
            else if (r->outputs[i].judging == QC_NOT_JUDGED)
                print_before_ordering(r);
            else if (isfinite(r->outputs[i].sqnr_db))
                qc_say(": SQNR %.2f dB over %zu sample%s%s%s\n", r->outputs[i].sqnr_db, r->measured_samples, plural,
                       r->outputs[i].part_count > 1 ? ", worst part " : "",
                       r->outputs[i].part_count > 1 ? r->outputs[i].parts[r->outputs[i].worst].name : "");
            else if (isnan(r->outputs[i].sqnr_db))
                qc_say(": not measured, it has no finite float values\n");
            else if (r->outputs[i].sqnr_db > 0)
                qc_say(": equal on %zu sample%s\n", r->measured_samples, plural);
            else
                qc_say(": NaN or infinite where the float model has numbers, on %zu sample%s\n", r->measured_samples,
                       plural);
        }
        return;
    }
    if (strcmp(r->metric, "psnr") == 0) {
        qc_say("accuracy    PSNR %.2f dB %s, %.2f dB %s (%+.2f) on %zu samples\n", r->fp32, real, r->int8, type,
               r->int8 - r->fp32, r->eval_samples);
        return;
    }
    qc_say("accuracy    top-1 %.2f %% %s, %.2f %% %s (%+.2f points) on ", 100 * r->fp32, real, 100 * r->int8, type,
           100 * (r->int8 - r->fp32));
    if (r->eval_positions) qc_say("%zu positions of ", r->eval_positions);
    qc_say("%zu samples; 95 %% interval of %s %.2f to %.2f\n", r->eval_samples, type, 100 * r->int8_low,
           100 * r->int8_high);
    if (r->eval_positions)
        qc_say("            nll %.4f nats %s, %.4f %s (%+.4f) on %zu positions; perplexity %.4f, %.4f\n", r->fp32_nll,
               real, r->int8_nll, type, r->int8_nll - r->fp32_nll, r->eval_positions, exp(r->fp32_nll),
               exp(r->int8_nll));
}

/* Returns the layer in the body of an If, Loop or Scan with the next higher SQNR of its own than *db, or NULL. */
static const struct qc_layer *next_of_body(const struct qc_report *r, double *db)
{
    const struct qc_layer *next = NULL;
    for (size_t i = 0; i < r->layer_count; i++) {
        const struct qc_layer *l = &r->layers[i];
        bool ranked = !l->node || !isfinite(l->sqnr_db) || !(l->sqnr_db > *db);
        for (size_t k = 0; !ranked && k < r->rank_count; k++) ranked = strcmp(r->ranks[k].node, l->node) == 0;
        if (!ranked && l->in_body && (!next || l->sqnr_db < next->sqnr_db)) next = l;
    }
    if (next) *db = next->sqnr_db;
    return next;
}

/* Prints the layers with the largest effect on the outputs; if there are fewer than WORST, also the noisiest in
   bodies. */
static void print_worst(const struct qc_report *r)
{
    size_t shown = 0;
    double db = -(double)INFINITY;
    for (size_t k = 0; k < r->rank_count && shown < WORST; k++) {
        const struct qc_report_rank *e = &r->ranks[k];
        if (!isfinite(e->sqnr_db) || !*e->node) continue;
        qc_say("%s%.2f dB  %s  ", shown++ ? "            " : "worst       ", e->sqnr_db, e->op);
        qc_say("%s\n", e->node);
    }
    for (const struct qc_layer *l; shown < WORST && (l = next_of_body(r, &db));) {
        qc_say("%s%.2f dB  %s  ", shown++ ? "            " : "worst       ", l->sqnr_db, l->op);
        qc_say("%s (SQNR of the tensor, in a body)\n", l->node);
    }
}

/* Prints the choice of --method auto. */
static void print_trial(const struct qc_report *r)
{
    size_t steps = 0;
    for (size_t i = 0; i < r->layer_count; i++) steps += r->layers[i].choice && r->layers[i].choice->steps;
    for (size_t i = 0; i < r->trial_count; i++) {
        const struct qc_report_trial *t = &r->trials[i];
        if (!t->chosen) continue;
        qc_say("ranges      %s (", t->method);
        if (r->trial_count == 1)
            qc_say("the only method that was tried");
        else
            qc_say("best of %zu methods, compared on %zu sample%s", r->trial_count, t->samples, qc_plural(t->samples));
        if (i) qc_say("; %.2f dB better than mse", t->gain_db);
        qc_say(")\n");
    }
    if (steps == 1)
        qc_say("            1 input is on an integer grid; its step is the scale (lossless)\n");
    else if (steps)
        qc_say("            %zu inputs are on integer grids; their steps are the scales (lossless)\n", steps);
}

/* Prints the layers with the largest individual effect on the outputs. */
static void print_effects(const struct qc_report *r)
{
    for (size_t k = 0; k < WORST && k < r->effect_count; k++) {
        const struct qc_report_effect *e = &r->effects[k];
        qc_say("%s", k ? "            " : "sensitive   ");
        if (isfinite(e->lost))
            qc_say("%+.2f %s  ", e->lost == 0 ? 0 : -e->lost, strcmp(r->metric, "psnr") == 0 ? "dB PSNR" : "points");
        qc_say("%.2f dB  %s  ", e->sqnr_db, e->op);
        qc_say("%s\n", e->node);
    }
}

/* For --per-channel=activations and schemes of rules: prints a line for each reason why quantizers have one scale. */
static void print_channels(const struct qc_report *r)
{
    size_t all = 0, several = 0;
    for (size_t i = 0; i < r->layer_count; i++) {
        if (strcmp(r->layers[i].kind, "activation") != 0) continue;
        all += r->layers[i].count > 1 || r->layers[i].one_scale;
        several += r->layers[i].count > 1;
    }
    if (all) qc_say("channels    %zu of %zu activations have a scale per channel\n", several, all);
    for (size_t i = 0; i < r->layer_count; i++) {
        const char *reason = r->layers[i].one_scale;
        size_t first = i, same = 0;
        for (size_t k = 0; reason && k < r->layer_count; k++) {
            const bool equal = r->layers[k].one_scale && strcmp(r->layers[k].one_scale, reason) == 0;
            if (equal && k < first) first = k;
            same += equal;
        }
        if (reason && first == i) qc_say("            %zu: %s\n", same, reason);
    }
}

/* Prints --min-sqnr and --max-nll, and the values reached. */
static void print_demand(const struct qc_report_demand *d)
{
    const char *label = "demand      ";
    if (!isnan(d->min_sqnr)) {
        qc_say("%soutput %s has %.2f dB on %zu samples of %s; required: %g\n", label, d->output, d->sqnr_db, d->samples,
               d->file, d->min_sqnr);
        label = "            ";
    }
    if (!isnan(d->max_nll)) qc_say("%snll %.4f nats; required: at most %g\n", label, d->nll, d->max_nll);
}

/* Prints what a step reaches, and its estimated latency. */
static void print_reached(const struct qc_report_fallback_step *s)
{
    if (!isnan(s->sqnr_db))
        qc_say(" %.2f dB", s->sqnr_db);
    else if (!isnan(s->drop))
        qc_say(" %.2f points lost", s->drop);
    else
        qc_say(" nll %.4f", s->nll);
    if (isfinite(s->cost.latency)) qc_say(" at %.2f of the float latency", s->cost.latency);
}

/* Prints the changes made to meet a demand, and the options that request the same. */
static void print_fallback(const struct qc_report_fallback *f, bool with_report)
{
    enum { OPTIONS = 16 };
    for (size_t i = 0; f->met && i < f->step_count; i++) {
        const struct qc_report_fallback_step *s = &f->steps[i];
        if (!s->chosen) continue;
        qc_say("fall-back   %zu layer%s in %s after %zu attempt%s", s->layers, qc_plural(s->layers), s->type,
               f->step_count - 1, f->step_count == 2 ? "" : "s");
        if (!isnan(s->int8_share)) qc_say("; %.1f %% of multiply-adds in int8", 100 * s->int8_share);
        if (s->cost.bytes) {
            qc_say("\n            without:");
            print_reached(&f->steps[0]);
            qc_say("; with:");
            print_reached(s);
            qc_say(" (estimated)");
        }
        qc_say("\n            by hand: ");
        if (f->option_count <= OPTIONS)
            qc_say("%s", f->command);
        else
            qc_say("%zu options, %s", f->option_count, with_report ? "in report.json" : "which --json lists");
        putchar('\n');
    }
}

/* --size: prints the number of layers by bits. */
static void print_size(const struct qc_report_size *s)
{
    qc_say("size        %zu bytes of at most %zu:", s->bytes, s->limit);
    size_t shown = 0;
    for (unsigned bits = 16; bits > 1; bits /= 2) {
        size_t layers = 0;
        for (size_t k = 0; k < s->layer_count; k++) layers += s->layers[k].bits == bits;
        if (layers) qc_say("%s %zu in %u bits", shown++ ? "," : " layers", layers, bits);
    }
    if (s->block) qc_say(", in blocks of %lld", (long long)s->block);
    putchar('\n');
}

static void print_idea(const char *action, const char *node)
{
    qc_say("%s%s%s", action, node ? ": " : "", node ? node : "");
}

/* Prints the changes that cost nothing at run time and that the job has taken. */
static void print_free_changes(const struct qc_report *r)
{
    for (size_t i = 0; i < r->idea_count; i++) {
        const struct qc_report_idea *t = &r->ideas[i];
        if (!t->kept) continue;
        qc_say("improved   ");
        for (size_t k = 0; k < t->option_count; k++) qc_say(" %s", t->options[k]);
        qc_say(": %+.2f dB on %zu samples, at no cost at run time\n", t->gain_db, t->samples);
    }
}

/* Prints in one line the idea with the largest gain of those tried, and the number not tried. */
static void print_advice(const struct qc_report *r, bool with_report)
{
    const struct qc_report_advice *a = r->advice;
    if (r->advice_count) {
        qc_say("advice      ");
        print_idea(a->action, a->node);
        qc_say(": output SQNR %.2f -> %.2f dB", a->before_db, a->after_db);
        if (with_report)
            qc_say("; the report has %s\n", r->advice_count == 1 ? "the command" : "this and other commands");
        else
            qc_say("\n            %s\n", a->command);
    }
    if (!r->advice_left) return;
    qc_say("%s%zu idea%s not tried, to save time (--advice on): ", r->advice_count ? "            " : "advice      ",
           r->advice_left, qc_plural(r->advice_left));
    for (size_t i = 0; i < r->advice_left; i++) {
        if (i) qc_say("; ");
        print_idea(r->advice_left_out[i].action, r->advice_left_out[i].node);
    }
    putchar('\n');
}

/* Prints times; optional stages only if they took time. */
static void print_times(const struct qc_report *r)
{
    const struct {
        const char *name;
        double seconds;
        bool always;
    } parts[] = {
        {"calibration", r->collect_seconds, true},   {"choice", r->solve_seconds, true},
        {"rounding", r->rounding_seconds, true},     {"check", r->measure_seconds + r->eval_seconds, true},
        {"free changes", r->ideas_seconds, false},   {"sensitivity", r->sensitivity_seconds, false},
        {"wider types", r->fallback_seconds, false}, {"size", r->size ? r->size->seconds : 0, false},
        {"advice", r->advice_seconds, false},        {"latency", r->latency ? r->latency->seconds : 0, false},
    };
    qc_say("time        %.2f s", r->total_seconds);
    for (size_t i = 0, shown = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].always || parts[i].seconds > 0)
            qc_say("%s %s %.2f s", shown++ ? "," : ":", parts[i].name, parts[i].seconds);
    putchar('\n');
}

static void print_latency(const struct qc_report_latency *l)
{
    size_t kept = 0;
    for (size_t i = 0; i < l->step_count; i++) kept += l->steps[i].kept;
    qc_say("latency     %.3g ms: ", l->best_ms);
    if (!isnan(l->float_ms)) qc_say("float %.3g, ", l->float_ms);
    qc_say("default %.3g, all integers %.3g; %zu of %zu changes kept\n", l->default_ms, l->integers_ms, kept,
           l->step_count);
    if (l->reverted) qc_say("            no gain over the default placement, which is written\n");
    if (l->all_float) qc_say("            nothing is quantized: no placement is faster than float\n");
}

static void print_quantized(const struct qc_report *r)
{
    qc_say("quantized   ");
    const struct {
        const char *kind;
        double share;
    } kinds[] = {{"8-bit floats", r->small_float_share}, {"blocks", r->block_share}, {"integers", r->integer_share}};
    const size_t count = sizeof kinds / sizeof *kinds;
    bool told = false;
    for (size_t i = 0; i < count; i++) {
        const bool only = i + 1 == count && !told && !isnan(kinds[i].share);
        if (!(kinds[i].share > 0) && !only) continue;
        qc_say("%s%.1f %%%s in %s", told ? ", " : "", 100 * kinds[i].share, told ? "" : " of multiply-adds",
               kinds[i].kind);
        told = true;
    }
    if (told) qc_say("; ");
    qc_say("%zu op%s, %zu stay%s in float\n", r->quantized_ops, qc_plural(r->quantized_ops), r->float_op_count,
           r->float_op_count == 1 ? "s" : "");
}

void qc_print_summary(const struct qc_report *r, bool with_report)
{
    qc_say("model       %s (%s)\n", r->model_file, QC_BYTES(r->model_bytes));
    if (r->data_file)
        qc_say("data        %s: %zu of %zu samples\n", r->data_file, r->data_samples, r->data_total);
    else
        qc_say(
            "data        none: weights are rounded to nearest; with --data FILE rounding errors are compensated, and\n"
            "            %s\n",
            with_report ? "the report measures layers and outputs" : "errors of layers and outputs are measured");
    if (r->data_made)
        qc_say("            %zu inputs made from its tokens: mask and positions, and an empty cache\n", r->data_made);
    print_quantized(r);
    print_float_ops(r, with_report);
    if (r->caches)
        qc_say("caches      %zu inputs and outputs are %s instead of float: a scale for each head\n", r->caches,
               r->cache_type);
    if (r->pairs.saturating)
        qc_say("processors  exact on x86 without VNNI: no, %zu of %zu products can saturate, '%s' first\n",
               r->pairs.saturating, r->pairs.products, r->pairs.first ? r->pairs.first : "in a body");
    else if (r->pairs.products)
        qc_say("processors  exact on x86 without VNNI: yes (%zu product%s; %zu channel%s of weights limited for it)\n",
               r->pairs.products, qc_plural(r->pairs.products), r->pairs.channels, qc_plural(r->pairs.channels));
    if (r->kept) qc_say("kept        %zu of %zu quantizers have the parameters of the model\n", r->kept, r->quantizers);
    if (r->bias_narrowed && r->quantized_ops)
        qc_say("bias        added after narrowing, with the parameters of the stored result\n");
    print_trial(r);
    print_channels(r);
    if (r->accumulator) print_accumulator(r->accumulator);
    print_reference(r);
    print_accuracy(r);
    if (r->latency) print_latency(r->latency);
    if (r->demand) print_demand(r->demand);
    if (r->fallback) print_fallback(r->fallback, with_report);
    if (r->size) print_size(r->size);
    if (r->effect_count && !(r->fallback && r->fallback->met)) /* else the effects are those of the earlier network */
        print_effects(r);
    else
        print_worst(r);
    print_free_changes(r);
    print_advice(r, with_report);
    print_times(r);
    for (size_t i = 0; i < r->file_count; i++) {
        qc_say("%s%s (%s)\n", i ? "            " : "written     ", r->files[i], QC_BYTES(r->file_bytes[i]));
    }
}
