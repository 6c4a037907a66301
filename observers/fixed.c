// SPDX-License-Identifier: Apache-2.0
/* fixed: the given range, whatever the statistics and known bounds are. */
#include <float.h>

#include "observers/observer.h"

static bool solve_fixed(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                        struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    (void)s, (void)request;
    *out = limits;
    out->lo = values->v[0] + 0.0; /* no -0 */
    out->hi = values->v[1];
    if (out->lo == 0 && out->hi == 0) return qc_fail(st, QC_USAGE, "min and max are both 0; a range needs a width");
    return true;
}

static const struct qc_observer_option options[] = {
    {.name = "min", .help = "lower end", .preset = (double)NAN, .min = -(double)FLT_MAX, .max = 0},
    {.name = "max", .help = "upper end", .preset = (double)NAN, .min = 0, .max = (double)FLT_MAX},
};

const struct qc_observer qc_observer_fixed = {
    .name = "fixed",
    .summary = "a given range for all tensors; if the target requires it",
    .need = QC_NEED_HISTOGRAM,
    .options = options,
    .option_count = sizeof options / sizeof *options,
    .fixed = true,
    .solve = solve_fixed,
};
