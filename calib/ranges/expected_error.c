// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/quantizer_channels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "calib/ranges/calibrate_parts.h"
#include "observers/moments.h"

/* Values on a grid have at most SIZES bins, as integers of 8 bits do; fewer than VALUES_LEAST values may agree by
   chance. MOST: limit on the widening. GUMBEL: sqrt(6) / pi, as standard deviations of the maxima. With more than KNOWN
   values the widening shrinks in proportion: values beyond the extremes are so rare that they cost less than wider
   steps of all others. */
enum { SIZES = 256, VALUES_LEAST = 1024 };
static const double GUMBEL = 0.7796968012336761, MOST = 2, KNOWN = 0x1p20;

static double times_further(const struct qc_series *s, double sign, double times)
{
    double sum = 0, squares = 0, top = 0, n = 0;
    for (int pass = 0; pass < 2; pass++) {
        const double mean = n > 0 ? sum / n : 0;
        for (size_t i = 0; i < s->count; i++) {
            const struct qc_extremes *e = &s->items[i];
            const double x = fmax(0, sign > 0 ? (double)e->max : -(double)e->min);
            if (e->min > e->max) continue;
            n += pass == 0;
            sum += pass == 0 ? x : 0;
            squares += pass == 1 ? (x - mean) * (x - mean) : 0;
            top = fmax(top, x);
        }
    }
    if (!(n > 1) || !(top > 0)) return 1;
    return fmin(MOST, 1 + GUMBEL * sqrt(squares / (n - 1)) * log(times) / top);
}

/* Returns true if the values look like integers of 8 bits: at least 1,024 values that fill at most 256 bins. */
static bool were_integers(const struct qc_histogram *h)
{
    return h->binned && h->tally.count >= VALUES_LEAST && h->used <= SIZES;
}

void qc_widen_for_few(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                      double known_lo, double known_hi)
{
    if (!seen->tally.count || were_integers(seen)) return;
    size_t n = 0; /* samples with values */
    for (size_t i = 0; i < series->count; i++) n += !(series->items[i].min > series->items[i].max);
    if (!n || n >= QC_MANY_SAMPLES) return;
    const double part = fmin(1, KNOWN / (double)seen->tally.count), times = QC_MANY_SAMPLES / (double)n;
    const double lo = 1 + part * (times_further(series, -1, times) - 1),
                 hi = 1 + part * (times_further(series, 1, times) - 1);
    if (range->lo < 0) range->lo = fmin(range->lo, fmax(known_lo, range->lo * lo));
    if (range->hi > 0) range->hi = fmax(range->hi, fmin(known_hi, range->hi * hi));
}

/* The height is exceeded by half of 32 samples, and by a smaller share of more samples, since the tail says more. The
   expected error is law^(1 - p) seen^p with p = n / (n + HALF) for n samples; the observed error counts as at least
   LEAST of the law. No end goes beyond FURTHEST times the largest value. Both ends share one law if their heights
   differ by a factor below ALIKE: twice as many samples say more. */
enum { ENDS = 65 };
static const double HALF = 16, LEAST = 0.1, FURTHEST = 1.06, ALIKE = 2;

struct side {
    const struct qc_bin *bins; /* [count], ascending */
    size_t count;
    double sign, solved, furthest;
    double height, beyond, sum; /* number of maxima beyond the height, sum of their excesses; 0: no law */
    double there, seen;         /* error of clipping at the height; exponent of the observed error */
};

/* Returns the squared error of clipping the histogram at `end`. */
static double cut_off(const struct side *s, double end)
{
    double sum = 0;
    for (size_t i = 0; i < s->count; i++) {
        const struct qc_bin *b = &s->bins[s->sign > 0 ? s->count - 1 - i : i];
        const double inner = s->sign > 0 ? b->lo : -b->hi, outer = s->sign > 0 ? b->hi : -b->lo;
        if (!(outer > end)) break;
        const double from = fmax(inner, end) - end, to = outer - end,
                     part = outer > inner ? (to - from) / (outer - inner) : 1;
        sum += (double)b->count * part * (from * from + from * to + to * to) / 3;
    }
    return sum;
}

static bool find_law(struct side *s, const struct qc_series *series, double known, struct qc_status *st)
{
    double *tops = malloc((series->count + 1) * sizeof *tops);
    size_t n = 0;
    if (!tops) return qc_fail_memory(st, series->count * sizeof *tops);
    for (size_t i = 0; i < series->count; i++) {
        const struct qc_extremes *e = &series->items[i];
        if (e->min <= e->max) tops[n++] = fmax(0, s->sign > 0 ? (double)e->max : -(double)e->min);
    }
    qsort(tops, n, sizeof *tops, qc_order_double);
    s->furthest = s->solved;
    if (n >= QC_MANY_SAMPLES && n <= QC_UNSEEN_MOST) {
        const size_t above = (size_t)(sqrt(QC_MANY_SAMPLES * (double)n) / 2);
        s->height = tops[n - 1 - above];
        s->beyond = (double)above;
        for (size_t i = n; i-- > n - above;) s->sum += tops[i] - s->height;
        s->there = cut_off(s, s->height);
        s->seen = (double)n / ((double)n + HALF);
        if (s->sum > 0) s->furthest = fmax(s->solved, fmin(known, tops[n - 1] * FURTHEST));
    }
    free(tops);
    return true;
}

static double expected(const struct side *s, double end)
{
    const double seen = cut_off(s, end);
    if (end <= s->height || !(s->sum > 0)) return seen;
    const double law = s->there * pow(1 + (end - s->height) / s->sum, -s->beyond);
    return law > 0 ? law * pow(fmax(LEAST, seen / law), s->seen) : seen;
}

/* Gives the rounding error of the values that are not clipped: of integers by the step, of floating-point levels by the
   values seen. */
struct rounding {
    const struct qc_moments *moments; /* NULL: integers */
    double values;                    /* that are not 0 */
};

static void find_ends(struct qc_range *range, const struct side sides[2], const struct qc_unseen *u,
                      const struct rounding *r)
{
    double end[2][ENDS], cut[2][ENDS], within[2][ENDS], least = (double)INFINITY;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < ENDS; i++) { /* denser near the solved end, where the least usually is */
            const double part = (double)i / (ENDS - 1);
            end[s][i] = sides[s].solved + (sides[s].furthest - sides[s].solved) * part * part;
            cut[s][i] = expected(&sides[s], end[s][i]);
            /* the values within a symmetric range that ends here */
            const double x = end[s][i],
                         all = r->moments ? qc_moments_squared_error(r->moments, -x, x, u->levels, u->symmetry) : 0;
            within[s][i] = r->moments ? fmax(0, all - cut_off(&sides[0], x) - cut_off(&sides[1], x)) : 0;
        }
    for (int i = 0; i < ENDS; i++)
        for (int j = 0; j < ENDS; j++) {
            const struct qc_affine q = qc_affine_from_range(-end[0][i], end[1][j], u->levels, u->symmetry);
            const double floats = end[0][i] > end[1][j] ? within[0][i] : within[1][j],
                         rounding = r->moments ? floats : r->values * (double)q.scale * (double)q.scale / 12,
                         error = rounding + u->clip * (cut[0][i] + cut[1][j]);
            if (!(error < least)) continue;
            least = error;
            range->lo = -end[0][i];
            range->hi = end[1][j];
        }
}

bool qc_widen_for_unseen(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                         const struct qc_unseen *u, struct qc_status *st)
{
    struct qc_bin *bins = NULL;
    struct qc_moments *moments = NULL;
    size_t n = 0;
    if (!seen->binned || were_integers(seen)) return true;
    if (!qc_histogram_bins(&bins, &n, seen, st)) return false;
    struct side s[2] = {{.sign = -1, .solved = -range->lo, .bins = bins, .count = n},
                        {.sign = 1, .solved = range->hi, .bins = bins, .count = n}};
    bool ok = find_law(&s[0], series, -u->known_lo, st) && find_law(&s[1], series, u->known_hi, st);
    if (s[0].sum > 0 && s[1].sum > 0 && s[0].height < ALIKE * s[1].height && s[1].height < ALIKE * s[0].height) {
        s[0].sum = s[1].sum = s[0].sum + s[1].sum;
        s[0].beyond = s[1].beyond = s[0].beyond + s[1].beyond;
    }
    if (ok && (s[0].sum > 0 || s[1].sum > 0)) {
        ok = !u->levels.mantissa || qc_moments_new(&moments, seen, NULL, st);
        const struct rounding rounding = {moments, (double)(seen->tally.count - seen->tally.zeros)};
        if (ok) find_ends(range, s, u, &rounding);
    }
    qc_moments_free(moments);
    free(bins);
    return ok;
}

bool qc_chooser_unseen(struct qc_range *range, const struct qc_chooser *k, qc_id id, const struct qc_method *by,
                       struct qc_status *st)
{
    const struct qc_qparams *q = &k->g->qparams_of[id];
    const struct qc_choice *choice = &k->c->choices[id];
    const struct qc_range solved = *range;
    if (!k->seen->extremes) return true;
    if (k->options->few)
        qc_widen_for_few(range, k->histograms[id], &k->samples[id].series, choice->known_lo, choice->known_hi);
    /* Methods that minimize the squared error: mse with norm 2, and observers of_network. */
    const double norm = by->values.v[0], clip = by->observer->of_network ? 1 : by->values.v[1];
    const bool squares =
        by->observer->of_network || (strcmp(by->observer->name, "mse") == 0 && !(norm < 2) && !(norm > 2));
    const struct qc_unseen what = {clip, qc_qparams_levels(q), q->symmetry, choice->known_lo, choice->known_hi};
    if (k->options->unseen && squares && !range->behind &&
        !qc_widen_for_unseen(range, k->histograms[id], &k->samples[id].series, &what, st))
        return qc_where(st, "quantizer '%s'", q->name);
    if (range->lo < solved.lo || range->hi > solved.hi)
        range->objective = (double)NAN; /* the objective belongs to the solved range */
    return true;
}
