// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/screen.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/scope.h"
#include "base/words.h"
#include "rewrite/passes/costs.h"

enum { WORST = 3, KINDS = 4, INDENT = 12 };

/* ---- Members of the record ---- */

static double number_record(const struct qc_json *v, const char *path)
{
    return qc_json_find_number(v, path);
}

static const char *text(const struct qc_json *v, const char *path)
{
    return qc_json_find_text(v, path);
}

static size_t count_of(const struct qc_json *v, const char *list)
{
    return qc_json_size(qc_json_find(v, list));
}

static bool is(const struct qc_json *v, const char *path, const char *wanted)
{
    const char *found = text(v, path);
    return found && strcmp(found, wanted) == 0;
}

static bool yes(const struct qc_json *v, const char *path)
{
    return number_record(v, path) > 0;
}

static size_t count(const struct qc_json *v, const char *path)
{
    const double n = number_record(v, path);
    return n > 0 ? (size_t)n : 0;
}

/* Calls the block with each element of a list of the record. */
#define EACH(item, v, path)                                                                                            \
    for (size_t item##_at = 0; item##_at < qc_json_size(qc_json_find(v, path)); item##_at++)                           \
        for (const struct qc_json *item = qc_json_at(qc_json_find(v, path), item##_at); item; item = NULL)

static const char *psnr_or(const struct qc_json *r, const char *psnr, const char *other)
{
    return is(r, "accuracy.metric", "psnr") ? psnr : is(r, "accuracy.metric", "metric") ? "units" : other;
}

/* ---- What was quantized ---- */

static void print_model(FILE *f, const struct qc_json *r, bool with_report)
{
    qc_print(f, "model       %s (%s)\n", text(r, "model.file"), QC_BYTES(count(r, "model.bytes")));
    if (text(r, "data.file"))
        qc_print(f, "data        %s: %zu of %zu samples\n", text(r, "data.file"), count(r, "data.samples"),
                 count(r, "data.samples_in_file"));
    else
        qc_print(
            f,
            "data        none: weights are rounded to nearest; with --data FILE rounding errors are compensated, and\n"
            "            %s\n",
            with_report ? "the report measures layers and outputs" : "errors of layers and outputs are measured");
    if (count(r, "data.inputs_made"))
        qc_print(f, "            %zu inputs made from its tokens: mask and positions, and an empty cache\n",
                 count(r, "data.inputs_made"));
}

static void print_quantized(FILE *f, const struct qc_json *r)
{
    static const struct {
        const char *kind, *key;
    } kinds[] = {{"8-bit floats", "small_float_share"}, {"blocks", "block_share"}, {"integers", "integer_share"}};
    const size_t kind_count = sizeof kinds / sizeof *kinds, floats = count_of(r, "float_ops");
    bool told = false;
    size_t weights = 0;
    EACH(l, r, "layers") weights += is(l, "kind", "weight");
    qc_print(f, "quantized   ");
    if (!count(r, "quantized_ops") && weights && !yes(r, kinds[0].key) && !yes(r, kinds[1].key)) {
        qc_print(f, "%zu weight tensor%s; all %zu op%s compute in float\n", weights, qc_plural(weights), floats,
                 qc_plural(floats));
        return;
    }
    for (size_t i = 0; i < kind_count; i++) {
        const double share = number_record(r, kinds[i].key);
        if (!(share > 0) && (i + 1 < kind_count || told || isnan(share))) continue;
        qc_print(f, "%s%.1f %%%s in %s", told ? ", " : "", 100 * share, told ? "" : " of multiply-adds", kinds[i].kind);
        told = true;
    }
    if (told) qc_print(f, "; ");
    qc_print(f, "%zu op%s, %zu stay%s in float\n", count(r, "quantized_ops"), qc_plural(count(r, "quantized_ops")),
             floats, floats == 1 ? "s" : "");
}

/* Prints one line for each reason: "4 Softmax, 2 Reshape: no pattern matches". Points to the option that stores weights
   of recurrent operators in integers. */
static void print_float_ops(FILE *f, const struct qc_json *r, bool with_report)
{
    size_t kinds = 0, printed = 0;
    const char *reasons[KINDS + 2];
    for (int others = 0; others < 2; others++) /* first the choices made for speed */
        EACH(op_, r, "float_ops")
        {
            const char *reason = text(op_, "reason");
            size_t k = 0;
            if ((strncmp(reason, QC_FASTER_IN_FLOAT, strlen(QC_FASTER_IN_FLOAT)) != 0) != others) continue;
            while (k < kinds && strcmp(reasons[k], reason) != 0) k++;
            if (k == kinds && kinds < KINDS + 2) reasons[kinds++] = reason;
        }
    if (kinds == KINDS + 2) kinds = KINDS; /* the line of the others would hide a single reason */
    for (size_t k = 0; k < kinds; k++) {
        size_t same = 0, others = 0;
        const char *op = "";
        EACH(op_, r, "float_ops")
        {
            if (!is(op_, "reason", reasons[k])) continue;
            if (!*op) op = text(op_, "op");
            if (is(op_, "op", op))
                same++;
            else
                others++;
        }
        qc_print(f, "            float: %zu %s", same, op);
        if (others) qc_print(f, " and %zu other op%s", others, qc_plural(others));
        qc_print(f, ", %s\n", reasons[k]);
        printed += same + others;
    }
    const size_t all = count_of(r, "float_ops");
    if (printed < all)
        qc_print(f, "            float: %zu more, see %s\n", all - printed, with_report ? "the report" : "--json");
    const struct qc_json *o = qc_json_find(r, "recurrent_in_float");
    if (o && !is(r, "options.prefer", "size"))
        qc_print(
            f,
            "            the weights of %zu %s are %.0f %% of all, and stay in float; --prefer size stores them in "
            "integers\n",
            count(o, "operators"), text(o, "op"), 100 * number_record(o, "weight_share"));
}

static void print_kernels(FILE *f, const struct qc_json *r)
{
    const struct qc_json *p = qc_json_find(r, "processors");
    const size_t products = count(p, "products"), saturating = count(p, "saturating"),
                 channels = count(p, "channels_limited");
    if (count(r, "edge_layers"))
        qc_print(f, "edges       %zu first and last layer%s in 8 bits (--edges-type none: as the others)\n",
                 count(r, "edge_layers"), qc_plural(count(r, "edge_layers")));
    if (qc_json_find(r, "caches"))
        qc_print(f, "caches      %zu inputs and outputs are %s instead of float: a scale for each head\n",
                 count(r, "caches.count"), text(r, "caches.type"));
    if (saturating && yes(p, "onnxruntime"))
        qc_print(f, "processors  exact on x86 without VNNI: no, %zu of %zu products can saturate, '%s' first\n",
                 saturating, products, text(p, "first") ? text(p, "first") : "in a body");
    else if (products && yes(p, "onnxruntime"))
        qc_print(
            f, "processors  exact on x86 without VNNI: yes (%zu product%s checked, %zu channel%s of weights limited)\n",
            products, qc_plural(products), channels, qc_plural(channels));
    if (qc_json_find(r, "given"))
        qc_print(f, "kept        %zu of %zu quantizers have the parameters of the model\n", count(r, "given.kept"),
                 count(r, "given.quantizers"));
    if (yes(r, "bias_narrowed") && count(r, "quantized_ops"))
        qc_print(f, "bias        added after narrowing, with the parameters of the stored result\n");
}

/* Prints the choice of --method auto. */
static void print_trial(FILE *f, const struct qc_json *r)
{
    size_t steps = 0;
    const size_t tried = count_of(r, "trials");
    EACH(l, r, "layers") steps += is(l, "choice.taken_for", "steps");
    EACH(t, r, "trials")
    {
        if (!yes(t, "chosen")) continue;
        qc_print(f, "ranges      %s (", text(t, "method"));
        if (tried == 1)
            qc_print(f, "the only method that was tried");
        else
            qc_print(f, "best of %zu methods, compared on %zu sample%s", tried, count(t, "samples"),
                     qc_plural(count(t, "samples")));
        if (t != qc_json_at(qc_json_find(r, "trials"), 0))
            qc_print(f, "; %.2f dB better than mse", number_record(t, "gain_db"));
        qc_print(f, ")\n");
    }
    if (steps == 1)
        qc_print(f, "            1 input is on an integer grid; its step is the scale (lossless)\n");
    else if (steps)
        qc_print(f, "            %zu inputs are on integer grids; their steps are the scales (lossless)\n", steps);
}

/* For --per-channel=activations and schemes of rules: prints a line for each reason why quantizers have one scale. */
static void print_channels(FILE *f, const struct qc_json *r)
{
    size_t all = 0, several = 0;
    EACH(l, r, "layers")
    {
        const struct qc_json *scale = qc_json_find(l, "scale");
        if (!is(l, "kind", "activation")) continue;
        const bool many = scale && qc_json_kind(scale) != QC_JSON_NUMBER && qc_json_size(scale) > 1;
        all += many || text(l, "one_scale");
        several += many;
    }
    if (all) qc_print(f, "channels    %zu of %zu activations have a scale per channel\n", several, all);
    EACH(l, r, "layers")
    {
        const char *reason = text(l, "one_scale");
        size_t same = 0;
        const struct qc_json *first = NULL;
        if (!reason) continue;
        EACH(other, r, "layers")
        {
            const bool equal = is(other, "one_scale", reason);
            if (equal && !first) first = other;
            same += equal;
        }
        if (first == l) qc_print(f, "            %zu: %s\n", same, reason);
    }
}

static void print_accumulator(FILE *f, const struct qc_json *a)
{
    double overflows = 0, results = 0;
    const size_t layers = count_of(a, "layers");
    EACH(l, a, "layers")
    {
        overflows += number_record(l, "overflows");
        results += number_record(l, "results");
    }
    qc_print(f, "accumulator %zu bits, %s: ", count(a, "bits"), text(a, "overflow"));
    if (!count(a, "samples"))
        qc_print(f, "overflows not counted, there are no samples");
    else if (!layers)
        qc_print(f, "no layer can overflow");
    else
        qc_print(f, "%.0f of %.0f results overflowed in the %zu layer%s that can", overflows, results, layers,
                 qc_plural(layers));
    qc_print(f, "; %zu scale%s raised, %zu channel%s bounded\n", count(a, "scales_raised"),
             qc_plural(count(a, "scales_raised")), count(a, "channels_bounded"),
             qc_plural(count(a, "channels_bounded")));
}

/* ---- What was lost ---- */

/* Returns what sets the measured samples apart from those that calibrated. */
static const char *measured_where(const struct qc_json *r)
{
    return is(r, "measured_on", "evaluation")       ? " of --eval"
           : is(r, "measured_on", "not calibrated") ? " that did not calibrate"
                                                    : "";
}

static void print_output(FILE *f, const struct qc_json *r, const struct qc_json *o, const char *label)
{
    const size_t samples = count(r, "measured_samples");
    const char *plural = qc_plural(samples), *worst = NULL, *state = text(o, "state");
    EACH(p, o, "parts")
    if (!worst || number_record(p, "sqnr_db") == number_record(o, "sqnr_db")) worst = text(p, "name");
    qc_print(f, "%s%s", label, text(o, "name"));
    if (yes(o, "ordered")) {
        /* the worst value that is judged in place of outputs whose rows change places */
        const struct qc_json *judged = NULL;
        EACH(other, r, "outputs")
        if (!yes(other, "ordered") && !isnan(number_record(other, "sqnr_db")) &&
            (!judged || number_record(other, "sqnr_db") < number_record(judged, "sqnr_db")))
            judged = other;
        qc_print(f, ": judged before its rows are put in order");
        if (judged)
            qc_print(f, ", at %s: SQNR %.2f dB over %zu sample%s%s", text(judged, "name"),
                     number_record(judged, "sqnr_db"), samples, plural, measured_where(r));
        qc_print(f, "\n");
    } else if (strcmp(state, "measured") == 0)
        qc_print(f, ": SQNR %.2f dB over %zu sample%s%s%s%s\n", number_record(o, "sqnr_db"), samples, plural,
                 measured_where(r), worst ? ", of its worst part, " : "", worst ? worst : "");
    else if (strcmp(state, "equal") == 0)
        qc_print(f, ": equal on %zu sample%s%s\n", samples, plural, measured_where(r));
    else if (strcmp(state, "not finite") == 0)
        qc_print(f, ": NaN or infinite where the float model has numbers, on %zu sample%s%s\n", samples, plural,
                 measured_where(r));
    else if (text(o, "type"))
        qc_print(f, ": not compared, its type is %s\n", text(o, "type"));
    else
        qc_print(f, ": not measured, it has no finite float values\n");
}

/* Returns a number by which outputs are sorted, the worst first. */
static double badness(const struct qc_json *o)
{
    const double db = number_record(o, "sqnr_db");
    if (!isnan(db)) return db;
    return yes(o, "ordered") || is(o, "state", "not finite") ? -1e9 : is(o, "state", "equal") ? 1e9 : 2e9;
}

/* Prints the worst outputs, and the number of the others. */
static void print_outputs(FILE *f, const struct qc_json *r)
{
    const struct qc_json *worst[WORST];
    size_t shown = 0, outputs = 0, compared = 0;
    EACH(o, r, "outputs")
    {
        size_t at = shown;
        if (qc_json_find(o, "written") && !yes(o, "written")) continue;
        outputs++;
        compared += badness(o) < 2e9;
        while (at > 0 && badness(o) < badness(worst[at - 1])) at--;
        if (at >= WORST) continue;
        shown += shown < WORST;
        memmove(worst + at + 1, worst + at, (shown - at - 1) * sizeof *worst);
        worst[at] = o;
    }
    const bool measured = count(r, "measured_samples") > 0;
    for (size_t i = 0; i < shown && measured; i++) print_output(f, r, worst[i], i ? "            " : "output      ");
    if (measured && shown < outputs)
        qc_print(f, "            and %zu more, %s\n", outputs - shown,
                 compared == outputs ? "which are better"
                 : compared <= shown ? "not compared"
                                     : "which are better or not compared");
    if (measured || !outputs) return;
    qc_print(f, "output      %s", text(worst[0], "name"));
    if (outputs > 1) qc_print(f, " and %zu more", outputs - 1);
    qc_print(f, ": not measured, there is no --data\n");
}

/* Prints the reference of errors and accuracy, and the accuracy. */
static void print_accuracy(FILE *f, const struct qc_json *r)
{
    const struct qc_json *a = qc_json_find(r, "accuracy");
    const char *real = text(r, "reference") ? "reference" : "float", *type = text(r, "network");
    const double fp32 = number_record(a, "fp32"), now = number_record(a, "int8");
    if (text(r, "reference")) {
        if (count(r, "unrounded"))
            qc_print(f, "reference   the model without the rounding of %zu of its values", count(r, "unrounded"));
        else
            qc_print(f, "reference   the given model, which is partly quantized");
        if (count(r, "linear_left"))
            qc_print(f, "; %zu QuantizeLinear and\n            DequantizeLinear stay in it", count(r, "linear_left"));
        qc_print(f, "\n");
    }
    if (!a) return;
    if (is(a, "metric", "psnr")) {
        qc_print(f, "accuracy    PSNR %.2f dB %s, %.2f dB %s (%+.2f) on %zu samples\n", fp32, real, now, type,
                 now - fp32, count(a, "samples"));
        return;
    }
    if (is(a, "metric", "metric")) {
        qc_print(f, "metric      %.6g %s, %.6g %s (%+.3g%s)\n", fp32, real, now, type, now - fp32,
                 qc_json_find(a, "lower_is_better") ? ", less is better" : "");
        return;
    }
    qc_print(f, "accuracy    top-1 %.2f %% %s, %.2f %% %s (%+.2f points) on ", 100 * fp32, real, 100 * now, type,
             100 * (now - fp32));
    const size_t positions = count(a, "positions");
    const struct qc_json *interval = qc_json_find(a, "int8_interval");
    if (positions) qc_print(f, "%zu positions of ", positions);
    qc_print(f, "%zu samples; 95 %% interval of %s %.2f to %.2f\n", count(a, "samples"), type,
             interval ? 100 * qc_json_value(qc_json_at(interval, 0)) : (double)NAN,
             interval ? 100 * qc_json_value(qc_json_at(interval, 1)) : (double)NAN);
    const double nll = number_record(a, "fp32_nll"), nll_now = number_record(a, "int8_nll");
    if (positions)
        qc_print(f, "            nll %.4f nats %s, %.4f %s (%+.4f) on %zu positions; perplexity %.4f, %.4f\n", nll,
                 real, nll_now, type, nll_now - nll, positions, exp(nll), exp(nll_now));
}

/* Returns the layer in the body of an If, Loop or Scan with the next higher SQNR of its own than *db, or NULL. */
static const struct qc_json *next_of_body(const struct qc_json *r, double *db)
{
    const struct qc_json *next = NULL;
    EACH(l, r, "layers")
    {
        if (!yes(l, "in_body") || !text(l, "node") || !(number_record(l, "sqnr_db") > *db)) continue;
        bool ranked = false;
        EACH(e, r, "ranking") ranked = ranked || is(e, "node", text(l, "node"));
        if (!ranked && (!next || number_record(l, "sqnr_db") < number_record(next, "sqnr_db"))) next = l;
    }
    if (next) *db = number_record(next, "sqnr_db");
    return next;
}

/* Prints the layers with the largest effect on the outputs; if there are fewer than WORST, also the noisiest in
   bodies. */
static void print_worst(FILE *f, const struct qc_json *r)
{
    size_t shown = 0;
    const char *where = qc_json_find(r, "samples_differ") ? ", on the samples of --data" : "";
    double db = -(double)INFINITY;
    EACH(e, r, "ranking")
    {
        if (shown >= WORST || isnan(number_record(e, "output_sqnr_db")) || !*text(e, "node")) continue;
        qc_print(f, "%s%.2f dB  %s  ", shown++ ? "            " : "worst       ", number_record(e, "output_sqnr_db"),
                 text(e, "op"));
        qc_print(f, "%s%s\n", text(e, "node"), where);
    }
    for (const struct qc_json *l; shown < WORST && (l = next_of_body(r, &db));) {
        qc_print(f, "%s%.2f dB  %s  ", shown++ ? "            " : "worst       ", db, text(l, "op"));
        qc_print(f, "%s (SQNR of the tensor, in a body)\n", text(l, "node"));
    }
}

/* Prints the layers with the largest individual effect on the outputs. */
static void print_effects(FILE *f, const struct qc_json *r)
{
    const struct qc_json *list = qc_json_find(r, "sensitivity");
    for (size_t k = 0; k < WORST && k < qc_json_size(list); k++) {
        const struct qc_json *e = qc_json_at(list, k);
        const double lost = number_record(e, "drop");
        qc_print(f, "%s", k ? "            " : "sensitive   ");
        const bool own = is(r, "accuracy.metric", "metric");
        if (!isnan(lost))
            qc_print(f, own ? "%+.3g %s  " : "%+.2f %s  ", lost == 0 ? 0 : -lost, psnr_or(r, "dB PSNR", "points"));
        qc_print(f, "%.2f dB  %s  ", number_record(e, "sqnr_db"), text(e, "op"));
        qc_print(f, "%s\n", text(e, "node"));
    }
}

/* ---- What was done about it ---- */

/* Prints what a step reaches, and its estimated latency. */
static void print_reached(FILE *f, const struct qc_json *r, const struct qc_json *s)
{
    const double db = number_record(s, "sqnr_db"), drop = number_record(s, "drop"), nll = number_record(s, "nll"),
                 latency = number_record(s, "cost.latency");
    if (!isnan(db))
        qc_print(f, " %.2f dB", db);
    else if (!isnan(drop))
        qc_print(f, " %.2f %s %s", fabs(drop), psnr_or(r, "dB PSNR", "points"), drop < 0 ? "gained" : "lost");
    else if (!isnan(nll))
        qc_print(f, " nll %.4f", nll);
    else
        qc_print(f, " equal outputs");
    if (isfinite(latency) && yes(r, "processors.estimated"))
        qc_print(f, " at %.0f %% of the float latency", 100 * latency);
}

/* Prints --min-sqnr and --max-nll with the values reached, the changes made to meet them, and the options that request
   the same. */
static void print_fallback(FILE *f, const struct qc_json *r, bool with_report)
{
    enum { OPTIONS = 16 };
    const struct qc_json *b = qc_json_find(r, "fallback"), *d = qc_json_find(r, "demand");
    const size_t steps = count_of(b, "steps"), options = count_of(b, "options");
    const double db = number_record(d, "sqnr_db");
    const bool with_sqnr = !isnan(number_record(d, "min_sqnr"));
    if (with_sqnr) {
        qc_print(f, isnan(db) ? "demand      output %s is equal" : "demand      output %s has %.2f dB",
                 text(d, "output"), db);
        qc_print(f, " on %zu samples of %s; required: %g%s\n", count(d, "samples"), text(d, "file"),
                 number_record(d, "min_sqnr"), isnan(db) ? " dB" : "");
    }
    if (!isnan(number_record(d, "max_nll")))
        qc_print(f, "%snll %.4f nats; required: at most %g\n", with_sqnr ? "            " : "demand      ",
                 number_record(d, "nll"), number_record(d, "max_nll"));
    const struct qc_json *first = qc_json_at(qc_json_get(b, "steps"), 0);
    EACH(s, b, "steps")
    {
        const size_t layers = count(s, "layers");
        if (!yes(s, "chosen") || !yes(b, "met")) continue;
        qc_print(f, "fall-back   %zu layer%s in %s after %zu attempt%s", layers, qc_plural(layers),
                 text(s, "type") ? text(s, "type") : "", steps - 1, qc_plural(steps - 1));
        if (!isnan(number_record(s, "int8_share")))
            qc_print(f, "; %.1f %% of multiply-adds in 8 bits or fewer", 100 * number_record(s, "int8_share"));
        if (isfinite(number_record(s, "cost.latency"))) {
            qc_print(f, "\n            without:");
            print_reached(f, r, first);
            qc_print(f, "; with:");
            print_reached(f, r, s);
            if (yes(r, "processors.estimated")) qc_print(f, " (estimated)");
        }
        if (text(b, "command")) qc_print(f, "\n            by hand: ");
        if (text(b, "command") && options <= OPTIONS)
            qc_print(f, "%s", text(b, "command"));
        else if (options)
            qc_print(f, "%zu options, %s", options, with_report ? "in report.json" : "which --json lists");
        fputc('\n', f);
    }
}

/* Prints the measured latency, or else the estimated one on each kind of processor. */
static void print_latency(FILE *f, const struct qc_json *r)
{
    const struct qc_json *l = qc_json_find(r, "timing.benchmark"), *on = qc_json_find(r, "cost.processors");
    if (l) {
        size_t kept = 0;
        EACH(c, l, "changes") kept += yes(c, "kept");
        qc_print(f, "latency     %.3g ms: ", number_record(l, "best_ms"));
        if (!isnan(number_record(l, "float_ms"))) qc_print(f, "float %.3g, ", number_record(l, "float_ms"));
        qc_print(f, "default %.3g, all integers %.3g; %zu of %zu changes kept\n", number_record(l, "default_ms"),
                 number_record(l, "integers_ms"), kept, count_of(l, "changes"));
        if (yes(l, "reverted")) qc_print(f, "            no gain over the default placement, which is written\n");
        if (yes(l, "all_float")) qc_print(f, "            nothing is quantized: no placement is faster than float\n");
    } else if (isfinite(number_record(r, "cost.latency")) && yes(r, "processors.estimated")) {
        qc_print(f, "latency     ");
        for (size_t i = 0; i < qc_json_size(on); i++)
            qc_print(f, "%s%.0f %%%s on %s", i ? ", " : "", 100 * qc_json_value(qc_json_at(on, i)),
                     i ? "" : " of the float model's", qc_json_key(on, i));
        qc_print(f, " (estimated)\n");
    }
}

static void print_idea(FILE *f, const struct qc_json *idea)
{
    qc_print(f, "%s%s%s", text(idea, "action"), text(idea, "node") ? ": " : "",
             text(idea, "node") ? text(idea, "node") : "");
}

/* Returns the worst output whose SQNR, as it is printed, advice changes; NULL: none. */
static const struct qc_json *changed_output(const struct qc_json *advice)
{
    const struct qc_json *worst = NULL;
    EACH(o, advice, "measured.outputs")
    if (fabs(number_record(o, "sqnr_db_after") - number_record(o, "sqnr_db_before")) >= 0.005 &&
        (!worst || number_record(o, "sqnr_db_before") < number_record(worst, "sqnr_db_before")))
        worst = o;
    return worst;
}

/* Prints in one line the idea with the largest gain of those tried, and the number not tried. */
static void print_advice(FILE *f, const struct qc_json *r, bool with_report)
{
    const struct qc_json *list = qc_json_find(r, "advice"), *a = NULL;
    EACH(tried, r, "advice") if (!a && changed_output(tried)) a = tried;
    const size_t left = count(r, "advice_left");
    if (a) {
        const struct qc_json *worst = changed_output(a);
        qc_print(f, "advice      ");
        print_idea(f, a);
        qc_print(f, ": output%s%s SQNR %.2f -> %.2f dB", count_of(a, "measured.outputs") > 1 ? " " : "",
                 count_of(a, "measured.outputs") > 1 ? text(worst, "name") : "", number_record(worst, "sqnr_db_before"),
                 number_record(worst, "sqnr_db_after"));
        const double accuracy = number_record(a, "measured.accuracy_after");
        if (is(r, "accuracy.metric", "psnr") && isfinite(accuracy))
            qc_print(f, ", PSNR %.2f dB", accuracy);
        else if (isfinite(accuracy))
            qc_print(f, ", top-1 %.2f %%", 100 * accuracy);
        /* the cost at run time, relative to the written file */
        const double latency = number_record(a, "cost.latency") / number_record(r, "cost.latency"),
                     bytes = 100 * (number_record(a, "cost.bytes") / number_record(r, "cost.bytes") - 1);
        if (isfinite(latency) && yes(r, "processors.estimated"))
            qc_print(f, ", %.2f x the latency (estimated)", latency);
        qc_print(f, ", %s%.0f %% bytes", bytes <= -0.5 ? "-" : "+", fabs(bytes));
        if (with_report && qc_json_size(list) > 1)
            qc_print(f, "; the report has %zu more idea%s", qc_json_size(list) - 1, qc_plural(qc_json_size(list) - 1));
        qc_print(f, "\n            %s\n", text(a, "shell"));
    }
    if (!left) return;
    qc_print(f, "not tried   %zu idea%s, to save time (--advice on tries all): ", left, qc_plural(left));
    size_t shown = 0;
    EACH(idea, r, "advice_left_out")
    {
        if (shown++) qc_print(f, "; ");
        print_idea(f, idea);
    }
    fputc('\n', f);
}

/* Prints times; optional passes only if they took time. */
static void print_times(FILE *f, const struct qc_json *r)
{
    static const struct {
        const char *name, *key, *more; /* more: another member that is added, or NULL */
        bool always;
    } parts[] = {
        {"calibration", "timing.collect_seconds", NULL, true},
        {"choice", "timing.solve_seconds", NULL, true},
        {"rounding", "timing.rounding_seconds", NULL, true},
        {"check", "timing.measure_seconds", "timing.eval_seconds", true},
        {"free changes", "timing.free_changes_seconds", NULL, false},
        {"sensitivity", "timing.sensitivity_seconds", NULL, false},
        {"wider types", "timing.fallback_seconds", NULL, false},
        {"size", "timing.size_seconds", NULL, false},
        {"advice", "timing.advice_seconds", NULL, false},
        {"latency", "timing.benchmark.seconds", NULL, false},
    };
    qc_print(f, "time        %.2f s", number_record(r, "timing.total_seconds"));
    for (size_t i = 0, shown = 0; i < sizeof parts / sizeof *parts; i++) {
        const double seconds = number_record(r, parts[i].key) + (parts[i].more ? number_record(r, parts[i].more) : 0);
        if (parts[i].always || seconds > 0) qc_print(f, "%s %s %.2f s", shown++ ? "," : ":", parts[i].name, seconds);
    }
    fputc('\n', f);
}

static void print_all(FILE *f, const struct qc_json *r, bool with_report)
{
    print_model(f, r, with_report);
    print_quantized(f, r);
    print_float_ops(f, r, with_report);
    print_kernels(f, r);
    print_trial(f, r);
    print_channels(f, r);
    if (qc_json_find(r, "accumulator")) print_accumulator(f, qc_json_find(r, "accumulator"));
    print_accuracy(f, r);
    print_outputs(f, r);
    print_latency(f, r);
    print_fallback(f, r, with_report);
    if (qc_json_find(r, "size")) {
        /* the number of layers by bits */
        const struct qc_json *s = qc_json_find(r, "size");
        qc_print(f, "size        %zu bytes of at most %zu:", count(s, "bytes"), count(s, "limit"));
        size_t shown = 0;
        for (unsigned bits = 16; bits > 1; bits /= 2) {
            size_t layers = 0;
            EACH(l, s, "layers") layers += count(l, "bits") == bits;
            if (layers) qc_print(f, "%s %zu in %u bits", shown++ ? "," : " layers", layers, bits);
        }
        if (count(s, "weight_block")) qc_print(f, ", in blocks of %zu", count(s, "weight_block"));
        fputc('\n', f);
    }
    if (count_of(r, "sensitivity") && !yes(r, "fallback.met"))
        print_effects(f, r);
    else /* the effects are those of the earlier network */
        print_worst(f, r);
    /* changes that cost almost nothing at run time and that the job has taken */
    EACH(t, r, "free_changes")
    {
        if (!yes(t, "kept")) continue;
        qc_print(f, "improved   ");
        const struct qc_json *options = qc_json_find(t, "options");
        for (size_t k = 0; k < qc_json_size(options); k++) qc_print(f, " %s", qc_json_text(qc_json_at(options, k)));
        qc_print(f, ": %+.2f dB on %zu samples, %s\n", number_record(t, "gain_db"), count(t, "samples"),
                 is(t, "name", "float_operators") ? "at most 1 % slower (estimated)" : "at no cost at run time");
    }
    print_advice(f, r, with_report);
    print_times(f, r);
    const char *label = "written     ";
    EACH(file, r, "files")
    {
        const size_t bytes = count(file, "bytes"), beside = count(file, "data_bytes"), model = count(r, "model.bytes");
        qc_print(f, "%s%s (%s%s)\n", label, text(file, "file"), QC_BYTES(bytes - beside),
                 model && bytes > model ? ", larger than the model" : "");
        label = "            ";
        if (beside) qc_print(f, "%s%s (%s)\n", label, text(file, "data"), QC_BYTES(beside));
    }
}

/* Returns true if a line may be broken at line[at]: a number stays with the word behind it, "->" with both numbers. */
static bool breaks(const char *line, size_t at)
{
    size_t word = at;
    if (line[at] != ' ' || line[at - 1] == ' ') return false;
    while (word > 0 && line[word - 1] != ' ') word--;
    const bool arrow = strncmp(line + word, "->", 2) == 0;
    while (word < at && strchr("(+-", line[word])) word++;
    return !arrow && !(line[word] >= '0' && line[word] <= '9');
}

bool qc_print_summary(const struct qc_json *record, bool with_report, struct qc_status *st)
{
    QC_FREED char *all = NULL;
    struct winsize w;
    const bool known = isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) == 0 && w.ws_col > 2 * INDENT;
    const size_t width = known ? w.ws_col : SIZE_MAX;
    size_t size;
    FILE *f = open_memstream(&all, &size);
    if (!f) return qc_fail_memory(st, 1);
    print_all(f, record, with_report);
    const bool whole = !ferror(f);
    if (fclose(f) != 0 || !whole) return qc_fail_memory(st, 1);
    for (const char *line = all, *end; *line; line = end + 1) {
        end = strchr(line, '\n');
        size_t length = (size_t)(end - line);
        /* A wider line is broken. A word that is too long has a line of its own. */
        for (size_t room = width, indent = INDENT; length > room; room = width - INDENT, indent = 0) {
            size_t at = room;
            while (at > indent && !breaks(line, at)) at--;
            if (at <= indent)
                for (at = room; at < length && !breaks(line, at);) at++;
            if (at >= length) break;
            printf("%.*s\n%*s", (int)at, line, INDENT, "");
            line += at + 1;
            length -= at + 1;
        }
        printf("%.*s\n", (int)length, line);
    }
    return true;
}
