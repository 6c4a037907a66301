// SPDX-License-Identifier: Apache-2.0
/* percentile: cuts the mass 1 - p/100 off the tails. Two-sided data lose half of it at each end; one-sided data (min >=
   0 or max <= 0) lose all of it at their far end. Exact zeros count as mass. Within a bin of the histogram (1/256
   octave) values count as evenly spread. */
#include <math.h>
#include <stdlib.h>

#include "observers/observer.h"
#include "observers/search.h"

static bool solve_percentile(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                             struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    struct qc_bin *nonzero = NULL;
    size_t nonzeros = 0, n = 0, i = 0;
    if (!qc_histogram_bins(&nonzero, &nonzeros, s->histogram, st)) return false;
    struct qc_bin *bins = calloc(nonzeros + 1, sizeof *bins); /* with the exact zeros */
    for (; bins && i < nonzeros && nonzero[i].lo < 0; i++) bins[n++] = nonzero[i];
    if (bins && s->zeros) bins[n++] = (struct qc_bin){.count = s->zeros};
    for (; bins && i < nonzeros; i++) bins[n++] = nonzero[i];
    free(nonzero);
    if (!bins) return qc_fail_memory(st, (nonzeros + 1) * sizeof *bins);
    double cut = (double)s->count * ((100 - values->v[0]) / 100), total = (double)s->count;
    bool two_sided = s->min < 0 && s->max > 0;
    if (two_sided) cut /= 2;
    *out = limits;
    if (s->min < 0) out->lo = fmax(limits.lo, fmin(0, qc_bins_value(bins, n, cut)));
    if (s->max > 0) out->hi = fmin(limits.hi, fmax(0, qc_bins_value(bins, n, total - cut)));
    free(bins);
    return true;
}

static const struct qc_observer_option options[] = {
    {.name = "p", .help = "percentage of the values to keep", .preset = 99.99, .min = 50, .max = 100},
};

const struct qc_observer qc_observer_percentile = {
    .name = "percentile",
    .summary = "cuts the share 1 - p/100 of the values off the tails; for single outliers",
    .need = QC_NEED_HISTOGRAM,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .solve = solve_percentile,
};
