// SPDX-License-Identifier: Apache-2.0
/* output: of weights alone. What a layer's outputs lose to the rounding of its weights is d' E[x x'] d for an output with weight errors d and inputs x; the
   tensor itself does not show it, so calib/output_error.h chooses, from second moments. solve is for weights that no moments are taken of: mse with norm 2. */
#include "observers/observer.h"

extern const struct qc_observer qc_observer_mse;

static bool solve(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request, struct qc_range limits,
                  const struct qc_observer_values *values, struct qc_status *st)
{
    const struct qc_observer_values squared = {.v = {2}};
    (void)values;
    return qc_observer_mse.solve(out, s, request, limits, &squared, st);
}

extern const struct qc_observer qc_observer_output;
const struct qc_observer qc_observer_output = {
    .name = "output",
    .summary = "for weights: the least mean squared error of the layer's outputs",
    .need = QC_NEED_HISTOGRAM,
    .of_output = true,
    .solve = solve,
};
