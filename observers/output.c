// SPDX-License-Identifier: Apache-2.0
/* output: what layers' outputs lose. Of weights it is d' E[x x'] d for an output with weight errors d and inputs x
   (calib/ranges/output_error.h); of activations the error of each channel by the squared weights that read it, which
   solve finds in a histogram of so weighted values (calib/ranges/output_quantizers.h). Where either is not known it is
   mse with norm 2. */
#include "observers/observer.h"

extern const struct qc_observer qc_observer_mse;

static bool solve(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                  struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    const struct qc_observer_values squared = {.v = {2, 1}};
    (void)values;
    return qc_observer_mse.solve(out, s, request, limits, &squared, st);
}

extern const struct qc_observer qc_observer_output;
const struct qc_observer qc_observer_output = {
    .name = "output",
    .summary = "the least mean squared error of the outputs of the layers behind",
    .need = QC_NEED_HISTOGRAM,
    .of_output = true,
    .solve = solve,
};
