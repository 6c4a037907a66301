// SPDX-License-Identifier: Apache-2.0
#include "observers/outline.h"

#include <math.h>
#include <stdlib.h>

#include "arith/float_level.h"

bool qc_outline_of(struct qc_outline *out, const struct qc_histogram *h, struct qc_status *st)
{
    struct qc_bin *bins = NULL;
    size_t n = 0;
    size_t at = 0;
    uint64_t whole = 0, before = 0; /* counts in bins below an edge; counts so far */
    *out = (struct qc_outline){.lo = fmin(0, (double)h->tally.min),
                               .hi = fmax(0, (double)h->tally.max),
                               .zeros = h->tally.zeros};
    if (!qc_histogram_bins(&bins, &n, h, st)) return false;
    for (int b = 0; b < QC_OUTLINE_BARS; b++) {
        double edge = out->lo + (out->hi - out->lo) * (b + 1) / QC_OUTLINE_BARS;
        for (; at < n && (bins[at].hi <= edge || b + 1 == QC_OUTLINE_BARS); at++) whole += bins[at].count;
        uint64_t upto = whole;
        if (at < n && bins[at].lo < edge)
            upto += (uint64_t)floor((double)bins[at].count * (edge - bins[at].lo) / (bins[at].hi - bins[at].lo) + 0.5);
        out->bars[b] = upto - before;
        before = upto;
    }
    free(bins);
    return true;
}

bool qc_loss_of(struct qc_loss *out, const struct qc_histogram *h, const struct qc_affine *to, struct qc_levels levels,
                struct qc_status *st)
{
    struct qc_bin *bins = NULL;
    size_t n = 0;
    double scale = (double)to->scale, least = scale * (levels.lo - to->zero_point),
           most = scale * (levels.hi - to->zero_point), lost = 0, count = 0;
    const double nearest_zero = qc_level_edge(0, levels);
    struct qc_loss l = {0};
    if (!qc_histogram_bins(&bins, &n, h, st)) return false;
    for (size_t i = 0; i < n; i++) {
        double x = (bins[i].lo + bins[i].hi) / 2, times = (double)bins[i].count, square = x * x * times;
        count += times;
        l.signal += square;
        const double step = scale * qc_level_step(x / scale, levels);
        if (fabs(x) < scale * nearest_zero) {
            l.rounding += square;
            lost += times;
        } else if (x < least)
            l.clipping += (x - least) * (x - least) * times;
        else if (x > most)
            l.clipping += (x - most) * (x - most) * times;
        else
            l.rounding += step * step / 12 * times;
    }
    l.lost = count > 0 ? lost / count : 0;
    free(bins);
    *out = l;
    return true;
}

double qc_loss_db(const struct qc_loss *l)
{
    double noise = l->rounding + l->clipping;
    if (!(l->signal > 0)) return (double)NAN;
    return noise > 0 ? 10 * log10(l->signal / noise) : (double)INFINITY;
}
