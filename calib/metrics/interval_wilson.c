// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "calib/metrics/accuracy.h"

/* Returns z with P(-z <= X <= z) = confidence, X normal with variance 1, by bisection until no double lies between. */
static double normal_quantile(double confidence)
{
    double low = 0, high = 40; /* erf(40 / sqrt(2)) is 1 */
    for (;;) {
        const double middle = low + (high - low) / 2;
        if (middle <= low || middle >= high) return middle;
        if (erfc(middle / sqrt(2)) > 1 - confidence)
            low = middle;
        else
            high = middle;
    }
}

void qc_interval(double *low, double *high, uint64_t hits, uint64_t n, double confidence)
{
    const double z = normal_quantile(confidence), count = (double)n, p = (double)hits / count, q = z * z / count,
                 centre = (p + q / 2) / (1 + q), half = sqrt(p * (1 - p) * q + q * q / 4) / (1 + q);
    *low = hits ? centre - half : 0;
    *high = hits < n ? centre + half : 1;
}
