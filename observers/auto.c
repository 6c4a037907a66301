// SPDX-License-Identifier: Apache-2.0
/* auto: each tensor gets the range of another observer, the one that serves the outputs of the network; that is found
   by runs of the network (quantize/trials/auto_method.h). Of a histogram alone it is mse with norm 2. */
#include "observers/observer.h"

extern const struct qc_observer qc_observer_mse;

static bool solve(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                  struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    const struct qc_observer_values squared = {.v = {2, 1}};
    (void)values;
    return qc_observer_mse.solve(out, s, request, limits, &squared, st);
}

extern const struct qc_observer qc_observer_auto;
const struct qc_observer qc_observer_auto = {
    .name = "auto",
    .summary = "tensor by tensor the one of several observers that serves the network's outputs best, by runs of the "
               "network; the default",
    .need = QC_NEED_HISTOGRAM,
    .of_network = true,
    .solve = solve,
};
