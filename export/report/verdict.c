// SPDX-License-Identifier: Apache-2.0
/* The verdict of a report: a grade and a sentence, from accuracy if it was measured, else from the worst output. */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/words.h"
#include "export/report/report.h"

/* An output below poor_db is of no use: the job raises it by itself (quantize/search/fallback.h). Above good_db hardly
   any prediction changes. */
static const double poor_db = 10, good_db = 30;

/* Losses of accuracy that are more than a usable network has: points of top-1, dB of PSNR. */
static const double poor_points = 1, poor_psnr_db = .5;

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

/* Returns the least SQNR of the outputs; NaN: not measured. */
static double worst_output(const struct qc_report *r)
{
    double least = (double)NAN;
    for (size_t i = 0; r->measured_samples && i < r->output_count; i++) least = fmin(least, r->outputs[i].sqnr_db);
    return least;
}

static const char *accuracy_grade(struct sentence *s, const struct qc_report *r)
{
    const bool psnr = strcmp(r->metric, "psnr") == 0;
    const double drop = (psnr ? 1 : 100) * (r->fp32 - r->int8);
    if (strcmp(r->metric, "metric") == 0) { /* nothing is known about its unit */
        say(s, "the metric is %.4g, %.4g in float", r->int8, r->fp32);
        return (r->lower_is_better ? -drop : drop) <= 0 ? GOOD : USABLE;
    }
    const char *what = psnr ? "PSNR" : "accuracy", *unit = psnr ? "dB" : "points";
    if (drop <= 0) {
        say(s, "%s is kept", what);
        return GOOD;
    }
    const bool within = r->fp32 <= r->int8_high;
    say(s, "%s falls by %.2f %s%s", what, drop, unit, within ? ", which is within the 95 % interval" : "");
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
    say(s, "%s (%.1f dB)",
        g == GOOD     ? "the outputs are close to those of the float model"
        : g == USABLE ? "the outputs differ noticeably from those of the float model"
                      : "the outputs are too noisy to be useful",
        db);
    return g;
}

static void say_gains(struct sentence *s, const struct qc_report *r)
{
    if (r->file_count && r->model_bytes)
        say(s, "; the file is %.0f %% of the original", 100 * (double)r->file_bytes[0] / (double)r->model_bytes);
    if (r->small_float_share > 0)
        say(s, "; %.1f %% of multiply-adds read 8-bit floats", 100 * r->small_float_share);
    else if (r->block_share > 0)
        say(s, "; %.1f %% of multiply-adds read values in blocks", 100 * r->block_share);
    else if (!isnan(r->integer_share))
        say(s, "; %.1f %% of multiply-adds are in integers", 100 * r->integer_share);
    if (r->latency && r->latency->float_ms > 0 && r->latency->best_ms > 0)
        say(s, "; it runs in %.0f %% of the time", 100 * r->latency->best_ms / r->latency->float_ms);
}

struct qc_json *qc_verdict_json(const struct qc_report *r)
{
    struct sentence s = {.length = 0};
    const double db = worst_output(r);
    const char *g = r->metric ? accuracy_grade(&s, r) : output_grade(&s, db);
    if (r->metric && db < poor_db && g == GOOD) { /* too few samples, or too easy ones, to show a loss */
        say(&s, ", but the outputs differ much from those of the float model (%.1f dB)", db);
        g = USABLE;
    }
    const bool unmet = r->demand ? !r->demand->met : r->fallback && !r->fallback->mended && !r->fallback->met;
    if (unmet) {
        say(&s, "; no model was written, since a demand was not met");
        g = POOR;
    }
    if ((g == USABLE || g == POOR) && r->advice_count)
        say(&s, "; %zu change%s would help", r->advice_count, qc_plural(r->advice_count));
    say_gains(&s, r);
    return QC_JSON("grade %s text %s", g, s.text);
}
