// SPDX-License-Identifier: Apache-2.0
#include "calib/interval.h"

#include <gsl/gsl_cdf.h>

void qc_interval(double *low, double *high, uint64_t hits, uint64_t n, double confidence)
{
    double tail = (1 - confidence) / 2, k = (double)hits, misses = (double)(n - hits);
    *low = hits ? gsl_cdf_beta_Pinv(tail, k, misses + 1) : 0;
    *high = hits < n ? gsl_cdf_beta_Pinv(1 - tail, k + 1, misses) : 1;
}
