// SPDX-License-Identifier: Apache-2.0
#include <gsl/gsl_cdf.h>

#include "calib/metrics/accuracy.h"

/* Returns p with P(X <= p) = probability, X ~ Beta(a, b), by bisection until no double lies between. The inverse of GSL
   does not converge for some counts (589 of 597). */
static double beta_quantile(double probability, double a, double b)
{
    double low = 0, high = 1;
    for (;;) {
        const double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) return middle;
        if (gsl_cdf_beta_P(middle, a, b) < probability)
            low = middle;
        else
            high = middle;
    }
}

void qc_interval(double *low, double *high, uint64_t hits, uint64_t n, double confidence)
{
    double tail = (1 - confidence) / 2, k = (double)hits, misses = (double)(n - hits);
    *low = hits ? beta_quantile(tail, k, misses + 1) : 0;
    *high = hits < n ? beta_quantile(1 - tail, k + 1, misses) : 1;
}
