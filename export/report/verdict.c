// SPDX-License-Identifier: Apache-2.0
/* The verdict of a report: a grade and sentences, from accuracy if it was measured, else from the worst output. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "export/report/report.h"

/* An output below poor_db is of no use: the job raises it by itself (quantize/search/attempts.h). Above good_db hardly
   any prediction changes. Below doubtful_db a kept accuracy may hide a loss: there the job looks for advice
   (QC_ADVICE_ENOUGH_MEASURED_DB). */
static const double poor_db = 10, doubtful_db = 20, good_db = 30;

/* Losses of accuracy that are more than a usable network has: points of top-1, dB of PSNR. */
static const double poor_points = 1, poor_psnr_db = .5;

/* An estimated latency relative to the float model that is more than the error of the estimate. */
static const double slower = 1.05;

static const char UNKNOWN[] = "unknown", GOOD[] = "good", USABLE[] = "usable", POOR[] = "poor";

struct sentence {
    char text[512];
    size_t length;
};

__attribute__((format(printf, 2, 3))) static void say(struct sentence *s, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(s->text + s->length, sizeof s->text - s->length, fmt, ap);
    va_end(ap);
    if (n > 0 && (size_t)n < sizeof s->text - s->length) s->length += (size_t)n;
}

static const char *accuracy_grade(struct sentence *s, const struct qc_json *a)
{
    const char *metric = qc_json_find_text(a, "metric");
    const bool psnr = strcmp(metric, "psnr") == 0;
    const double fp32 = qc_json_find_number(a, "fp32"), int8 = qc_json_find_number(a, "int8"), factor = psnr ? 1 : 100,
                 drop = factor * (fp32 - int8);
    if (strcmp(metric, "metric") == 0) { /* nothing is known about its unit */
        say(s, "the metric is %.4g, %.4g in float", int8, fp32);
        return (qc_json_find(a, "lower_is_better") ? -drop : drop) <= 0 ? GOOD : USABLE;
    }
    const char *what = psnr ? "PSNR" : "accuracy", *unit = psnr ? "dB" : "%";
    if (drop <= 0) {
        say(s, "%s is kept (%.2f %s, %.2f in float)", what, factor * int8, unit, factor * fp32);
        return GOOD;
    }
    const struct qc_json *interval = qc_json_find(a, "int8_interval");
    const bool within = interval && fp32 <= qc_json_value(qc_json_at(interval, 1));
    say(s, "%s falls by %.2f %s (%.2f %s, %.2f in float)%s", what, drop, psnr ? "dB" : "points", factor * int8, unit,
        factor * fp32, within ? ", which may be chance: float lies in the 95 % interval" : "");
    if (drop > (psnr ? poor_psnr_db : poor_points)) return within ? USABLE : POOR;
    return within || drop <= .1 ? GOOD : USABLE;
}

static const char *output_grade(struct sentence *s, double db)
{
    if (isnan(db)) {
        say(s, "accuracy was not measured");
        return UNKNOWN;
    }
    if (isinf(db) && db > 0) {
        say(s, "the outputs equal those of the float model");
        return GOOD;
    }
    const char *g = db >= good_db ? GOOD : db >= poor_db ? USABLE : POOR;
    const double percent = 100 * pow(10, -db / 20); /* of the size of the outputs */
    say(s, "%s (%.1f dB: an error of ",
        g == GOOD     ? "the outputs are close to those of the float model"
        : g == USABLE ? "the outputs differ noticeably from those of the float model"
                      : "the outputs are too noisy to be useful",
        db);
    say(s, percent < 99.5 ? "%.2g %%)" : "%.0f %%)", percent);
    return g;
}

/* Returns true if all operators compute in float. */
static bool is_float(const struct qc_json *record)
{
    const double quantized = qc_json_find_number(record, "quantized_ops");
    return quantized >= 0 && quantized < 1 && qc_json_size(qc_json_find(record, "float_ops"));
}

/* Says which demands are not met. Returns true if there are any. */
static bool say_missed(struct sentence *s, const struct qc_json *record)
{
    static const char *const demands[] = {"max-drop", "min-sqnr", "max-nll"};
    const struct qc_json *d = qc_json_find(record, qc_json_find(record, "demand") ? "demand" : "fallback"),
                         *options = qc_json_find(record, "options");
    const char *between = qc_json_size(qc_json_find(record, "files")) ? "; " : "; no model was written, since ";
    if (!d || qc_json_find_number(d, "met") > 0 || qc_json_find_number(d, "mended") > 0) return false;
    for (size_t i = 0; i < sizeof demands / sizeof *demands; i++) {
        const double v = qc_json_find_number(options, demands[i]);
        if (isnan(v)) continue;
        say(s, "%s--%s %g", between, demands[i], v);
        between = " and ";
    }
    say(s, " could not be met");
    return true;
}

/* Says what the advice gains at the worst output. */
static void say_advice(struct sentence *s, const struct qc_json *advice)
{
    const size_t count = qc_json_size(advice);
    const struct qc_json *outputs = qc_json_find(qc_json_at(advice, 0), "measured.outputs");
    double before = (double)NAN, after = (double)NAN;
    for (size_t i = 0; i < qc_json_size(outputs); i++) {
        before = fmin(before, qc_json_find_number(qc_json_at(outputs, i), "sqnr_db_before"));
        after = fmin(after, qc_json_find_number(qc_json_at(outputs, i), "sqnr_db_after"));
    }
    say(s, ". %zu tested change%s the outputs, %sfrom %.1f to %.1f dB (see the advice)", count,
        count == 1 ? " improves" : "s improve", count == 1 ? "" : "the best ", before, after);
}

/* Says the estimated latency on the kind of processor where the file is slowest, if it is slower than float there. */
static void say_slower(struct sentence *s, const struct qc_json *record)
{
    const struct qc_json *on = qc_json_find(record, "cost.processors");
    const char *asked = qc_json_find_text(record, "options.processor"), *where = NULL;
    const bool one = on && asked && qc_json_get(on, asked); /* else all kinds count */
    double most = slower;
    for (size_t i = 0; i < qc_json_size(on); i++) {
        const double latency = qc_json_value(qc_json_at(on, i));
        if (!(latency > most) || (one && strcmp(asked, qc_json_key(on, i)) != 0)) continue;
        most = latency;
        where = qc_json_key(on, i);
    }
    if (where) say(s, "; its latency is %.0f %% of that of the float model on %s (estimated)", 100 * most, where);
}

struct qc_json *qc_verdict_json(const struct qc_json *record)
{
    struct sentence s = {.length = 0};
    const struct qc_json *accuracy = qc_json_find(record, "accuracy");
    const struct qc_json *outputs = qc_json_find(record, "outputs");
    double db = (double)NAN; /* the least SQNR of the outputs; infinity: all are equal, NaN: not measured */
    for (size_t i = 0; i < qc_json_size(outputs); i++) {
        const struct qc_json *o = qc_json_at(outputs, i);
        const char *state = qc_json_find_text(o, "state");
        const bool equal = state && strcmp(state, "equal") == 0, bad = state && strcmp(state, "not finite") == 0;
        db = fmin(db, equal ? (double)INFINITY : bad ? -(double)INFINITY : qc_json_find_number(o, "sqnr_db"));
    }
    const struct qc_json *advice = qc_json_find(record, "advice");
    const bool constant = qc_json_find(record, "constant_outputs") != NULL,
               weights = is_float(record) && qc_json_size(qc_json_find(record, "layers")),
               unchanged = is_float(record) && !weights, differ = qc_json_find(record, "samples_differ") != NULL;
    if (unchanged)
        say(&s, "nothing is quantized: the outputs are those of the float model");
    else if (constant)
        say(&s, "the outputs are nearly the same for all samples: check how these are prepared");
    const char *g = constant || unchanged ? UNKNOWN : accuracy ? accuracy_grade(&s, accuracy) : output_grade(&s, db);
    if (differ) say(&s, "; the calibration samples differ from those of --eval");
    if (accuracy && db < doubtful_db && g == GOOD) { /* too few samples, or too easy ones, to show a loss */
        say(&s, ", but the outputs differ much from those of the float model (%.1f dB)", db);
        g = USABLE;
    }
    if (say_missed(&s, record)) g = POOR;
    if ((g == USABLE || g == POOR) && qc_json_size(advice) && !differ) say_advice(&s, advice);
    const struct qc_json *files = qc_json_find(record, "files");
    const double model = qc_json_find_number(record, "model.bytes"),
                 file = qc_json_size(files) ? qc_json_find_number(qc_json_at(files, 0), "bytes") : (double)NAN,
                 floats = qc_json_find_number(record, "small_float_share"),
                 blocks = qc_json_find_number(record, "block_share"),
                 integers = qc_json_find_number(record, "integer_share"),
                 ms = qc_json_find_number(record, "timing.benchmark.best_ms"),
                 float_ms = qc_json_find_number(record, "timing.benchmark.float_ms");
    const bool sized = file > 0 && model > 0, shared = floats > 0 || blocks > 0 || !isnan(integers);
    if (sized) say(&s, ". The file is %.0f %% of the original", 100 * file / model);
    if (weights && !(floats > 0) && !(blocks > 0))
        say(&s, "%s only weights are quantized", sized ? ";" : ".");
    else if (shared)
        say(&s, "%s%.1f %% of multiply-adds %s", sized ? "; " : ". ",
            100 * (floats > 0   ? floats
                   : blocks > 0 ? blocks
                                : integers),
            floats > 0   ? "read 8-bit floats"
            : blocks > 0 ? "read values in blocks"
                         : "are in integers");
    if (ms > 0 && float_ms > 0)
        say(&s, "%s latency is %.0f %% of that of the float model", sized || shared ? "; its" : ". Its",
            100 * ms / float_ms);
    else if (sized && qc_json_find_number(record, "processors.estimated") > 0)
        say_slower(&s, record);
    return QC_JSON("grade %s text %s", g, s.text);
}
