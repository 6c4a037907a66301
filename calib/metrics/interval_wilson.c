// SPDX-License-Identifier: Apache-2.0
#include <math.h>

#include "calib/metrics/accuracy.h"

void qc_interval(double *low, double *high, uint64_t hits, uint64_t n, double confidence)
{
    /* z with P(-z <= X <= z) = confidence, X normal with variance 1, by bisection until no double lies between */
    double least = 0, most = 40, z = 20; /* erf(40 / sqrt(2)) is 1 */
    for (; z > least && z < most; z = least + (most - least) / 2) {
        if (erfc(z / sqrt(2)) > 1 - confidence)
            least = z;
        else
            most = z;
    }
    const double count = (double)n, p = (double)hits / count, q = z * z / count, centre = (p + q / 2) / (1 + q),
                 half = sqrt(p * (1 - p) * q + q * q / 4) / (1 + q);
    *low = hits ? centre - half : 0;
    *high = hits < n ? centre + half : 1;
}
