// SPDX-License-Identifier: Apache-2.0
#include "observers/observer.h"

static bool solve_minmax(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                         struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    (void)s, (void)request, (void)values, (void)st;
    *out = limits;
    return true;
}

const struct qc_observer qc_observer_minmax = {
    .name = "minmax",
    .summary = "the smallest and the largest value seen: nothing is clipped; for weights per channel",
    .need = QC_NEED_EXTREMES,
    .solve = solve_minmax,
};
