// SPDX-License-Identifier: Apache-2.0
/* avgmax: the mean of the samples' minima and the mean of their maxima. Summed in double in the order of sample numbers. */
#include "observers/observer.h"
#include "observers/series.h"

static bool solve(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request, struct qc_range limits,
                  const struct qc_observer_values *values, struct qc_status *st)
{
    (void)request, (void)values, (void)st;
    double lo = 0, hi = 0, count = 0;
    for (size_t i = 0; i < s->series->count; i++) {
        const struct qc_extremes *e = &s->series->items[i];
        if (e->min > e->max) continue;
        lo += (double)e->min;
        hi += (double)e->max;
        count++;
    }
    *out = limits;
    if (lo / count > out->lo) out->lo = lo < 0 ? lo / count : 0;
    if (hi / count < out->hi) out->hi = hi > 0 ? hi / count : 0;
    return true;
}

extern const struct qc_observer qc_observer_avgmax;
const struct qc_observer qc_observer_avgmax = {
    .name = "avgmax",
    .summary = "mean of the samples' minima and of their maxima; for outliers that few samples have",
    .need = QC_NEED_SERIES,
    .solve = solve,
};
