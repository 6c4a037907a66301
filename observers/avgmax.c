// SPDX-License-Identifier: Apache-2.0
/* avgmax: the mean of the samples' minima and the mean of their maxima. They are summed in ascending order, so the
   order of the samples does not matter. */
#include <stdlib.h>

#include "base/array.h"
#include "observers/observer.h"

/* Returns the mean of the upper or lower ends of the samples that have one, or 0. */
static double mean_end(float *room, const struct qc_series *series, bool upper)
{
    size_t n = 0;
    double sum = 0;
    for (size_t i = 0; i < series->count; i++) {
        const struct qc_extremes *e = &series->items[i];
        if (e->min <= e->max) room[n++] = upper ? e->max : e->min;
    }
    qsort(room, n, sizeof *room, qc_order_float);
    for (size_t i = 0; i < n; i++) sum += (double)room[i];
    return n ? sum / (double)n : 0;
}

static bool solve_avgmax(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                         struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    (void)request, (void)values;
    size_t bytes = (s->series->count + 1) * sizeof(float);
    float *room = malloc(bytes);
    if (!room) return qc_fail_memory(st, bytes);
    double lo = mean_end(room, s->series, false), hi = mean_end(room, s->series, true);
    free(room);
    *out = limits;
    qc_range_cut(out, lo, hi);
    return true;
}

const struct qc_observer qc_observer_avgmax = {
    .name = "avgmax",
    .summary = "mean of the samples' minima and of their maxima; for outliers that few samples have",
    .need = QC_NEED_SERIES,
    .solve = solve_avgmax,
};
