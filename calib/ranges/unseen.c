// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/unseen.h"

#include <math.h>
#include <stdlib.h>

#include "calib/ranges/few_samples.h"

/* The height is what half of 32 samples exceed; of more samples a smaller part, since what lies further out says more.
   What is expected is what was seen to the power SEEN times the law to the rest, where at least the part LEAST of the
   law counts as seen. What lies further than FURTHEST times all that was seen is left to trials of wider ranges. Both
   ends have one mean, where their heights are alike: twice as many samples say more. */
enum { ENDS = 33 };
static const double SEEN = 0.75, LEAST = 0.1, FURTHEST = 1.06, ALIKE = 2;

struct side {
    const struct qc_bin *bins; /* [count], ascending */
    size_t count;
    double sign, solved, furthest;
    double height, mean, there; /* there: what is cut off at the height; mean 0: no law */
};

/* The squared error of cutting off what was seen beyond `end`. */
static double beyond(const struct side *s, double end)
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

static int descending(const void *x, const void *y)
{
    const double *a = x, *b = y;
    return (*a < *b) - (*a > *b);
}

static bool find_law(struct side *s, const struct qc_series *series, double known, struct qc_status *st)
{
    double *tops = malloc((series->count + 1) * sizeof *tops), sum = 0;
    size_t n = 0;
    if (!tops) return qc_fail_memory(st, series->count * sizeof *tops);
    for (size_t i = 0; i < series->count; i++) {
        const struct qc_extremes *e = &series->items[i];
        if (e->min <= e->max) tops[n++] = fmax(0, s->sign > 0 ? (double)e->max : -(double)e->min);
    }
    qsort(tops, n, sizeof *tops, descending);
    s->furthest = s->solved;
    if (n >= QC_MANY_SAMPLES && n <= QC_UNSEEN_MOST) {
        const size_t above = (size_t)(sqrt(QC_MANY_SAMPLES * (double)n) / 2);
        s->height = tops[above];
        for (size_t i = 0; i < above; i++) sum += tops[i] - s->height;
        s->mean = sum / (double)above;
        s->there = beyond(s, s->height);
        if (s->mean > 0) s->furthest = fmax(s->solved, fmin(known, tops[0] * FURTHEST));
    }
    free(tops);
    return true;
}

static double expected(const struct side *s, double end)
{
    const double seen = beyond(s, end);
    if (end <= s->height || !(s->mean > 0)) return seen;
    const double law = s->there * exp(-(end - s->height) / s->mean);
    return law > 0 ? law * pow(fmax(LEAST, seen / law), SEEN) : seen;
}

static void find_ends(struct qc_range *range, const struct side sides[2], const struct qc_unseen *u, double values)
{
    double end[2][ENDS], cut[2][ENDS], least = (double)INFINITY;
    for (int s = 0; s < 2; s++)
        for (int i = 0; i < ENDS; i++) {
            end[s][i] = sides[s].solved + (sides[s].furthest - sides[s].solved) * i / (ENDS - 1);
            cut[s][i] = expected(&sides[s], end[s][i]);
        }
    for (int i = 0; i < ENDS; i++)
        for (int j = 0; j < ENDS; j++) {
            const struct qc_affine q = qc_affine_from_range(-end[0][i], end[1][j], u->levels, u->symmetry);
            const double error = values * (double)q.scale * (double)q.scale / 12 + u->clip * (cut[0][i] + cut[1][j]);
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
    size_t n = 0;
    if (!seen->binned || qc_were_integers(seen)) return true;
    if (!qc_histogram_bins(&bins, &n, seen, st)) return false;
    struct side s[2] = {{.sign = -1, .solved = -range->lo, .bins = bins, .count = n},
                        {.sign = 1, .solved = range->hi, .bins = bins, .count = n}};
    const bool ok = find_law(&s[0], series, -u->known_lo, st) && find_law(&s[1], series, u->known_hi, st);
    if (s[0].mean > 0 && s[1].mean > 0 && s[0].height < ALIKE * s[1].height && s[1].height < ALIKE * s[0].height)
        s[0].mean = s[1].mean = (s[0].mean + s[1].mean) / 2;
    if (ok && (s[0].mean > 0 || s[1].mean > 0)) find_ends(range, s, u, (double)(seen->tally.count - seen->tally.zeros));
    free(bins);
    return ok;
}
