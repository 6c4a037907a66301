// SPDX-License-Identifier: Apache-2.0
#include "calib/ranges/few_samples.h"

#include <math.h>

enum { SIZES = 256, VALUES_LEAST = 1024 };
/* GUMBEL: sqrt(6) / pi, as standard deviations of the maxima. With more than KNOWN values the widening shrinks in
   proportion: values beyond the extremes are so rare that they cost less than wider steps of all others. */
static const double GUMBEL = 0.7796968012336761, MOST = 2, KNOWN = 0x1p20;

static size_t seen_of(const struct qc_series *s)
{
    size_t n = 0;
    for (size_t i = 0; i < s->count; i++) n += !(s->items[i].min > s->items[i].max);
    return n;
}

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

bool qc_were_integers(const struct qc_histogram *h)
{
    return h->binned && h->tally.count >= VALUES_LEAST && h->used <= SIZES;
}

void qc_widen_for_few(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                      double known_lo, double known_hi)
{
    if (!seen->tally.count || qc_were_integers(seen)) return;
    const size_t n = seen_of(series);
    if (!n || n >= QC_MANY_SAMPLES) return;
    const double part = fmin(1, KNOWN / (double)seen->tally.count), times = QC_MANY_SAMPLES / (double)n;
    const double lo = 1 + part * (times_further(series, -1, times) - 1),
                 hi = 1 + part * (times_further(series, 1, times) - 1);
    if (range->lo < 0) range->lo = fmin(range->lo, fmax(known_lo, range->lo * lo));
    if (range->hi > 0) range->hi = fmax(range->hi, fmin(known_hi, range->hi * hi));
}
