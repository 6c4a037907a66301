// SPDX-License-Identifier: Apache-2.0
/* mse: the range whose quantizer - the scale and zero point that qc_affine_from_range gives, saturation and the rounding of the zero point
   included - has the least mean squared error. The objective is that mean over all finite values (exact zeros cost nothing but count). */
#include <stdlib.h>

#include "observers/moments.h"
#include "observers/observer.h"
#include "observers/search.h"

struct problem {
    const struct qc_moments *moments;
    const struct qc_solve *request;
    double count;
};

static double objective(const void *user, double lo, double hi)
{
    const struct problem *p = user;
    return qc_moments_squared_error(p->moments, lo, hi, p->request->levels, p->request->symmetry) / p->count;
}

static bool solve(struct qc_range *out, const struct qc_statistics *s, const struct qc_solve *request,
                  struct qc_range limits, const struct qc_observer_values *values, struct qc_status *st)
{
    (void)values;
    struct qc_moments *moments = NULL;
    struct qc_bin *bins = NULL;
    size_t n = 0;
    bool ok = qc_histogram_bins(&bins, &n, s->histogram, st) && qc_moments_new(&moments, s->histogram, st);
    if (ok) {
        struct problem p = {.moments = moments, .request = request, .count = (double)s->count};
        struct qc_search search = {.limits = limits, .request = request, .objective = objective, .user = &p};
        qc_search_floors(&search, bins, n);
        qc_search_run(out, &search);
    }
    qc_moments_free(moments);
    free(bins);
    return ok;
}

extern const struct qc_observer qc_observer_mse;
const struct qc_observer qc_observer_mse = {
    .name = "mse",
    .summary = "the least mean squared error after quantization",
    .need = QC_NEED_HISTOGRAM,
    .solve = solve,
};
