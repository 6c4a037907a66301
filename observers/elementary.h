// SPDX-License-Identifier: Apache-2.0
/* Logarithm, exponential and power in plain arithmetic, so that results do not depend on the libm. Private to
   observers/. Relative errors: logarithm 1e-15 (of max(1, |ln x|)); exponential and power 1e-12 at the ends of their
   range, 1e-15 in its middle. */
#pragma once

#include <math.h>
#include <stdint.h>
#include <string.h>

#define QC_LN2 0x1.62e42fefa39efp-1

/* ln x of a positive normal number: x = 2^e m, 1/sqrt(2) <= m < sqrt(2), ln m = 2 atanh((m - 1) / (m + 1)); the series
   is cut below 1e-17. */
static inline __attribute__((always_inline)) double qc_logarithm(double x)
{
    uint64_t u;
    memcpy(&u, &x, sizeof u);
    int e = (int)(u >> 52) - 1023;
    u = (u & UINT64_C(0xfffffffffffff)) | UINT64_C(0x3ff0000000000000);
    double m;
    memcpy(&m, &u, sizeof m);
    if (m > 0x1.6a09e667f3bcdp+0) {
        m *= 0.5;
        e++;
    }
    static const double parts[] = {1.0 / 19, 1.0 / 17, 1.0 / 15, 1.0 / 13, 1.0 / 11,
                                   1.0 / 9,  1.0 / 7,  1.0 / 5,  1.0 / 3,  1.0};
    double s = (m - 1) / (m + 1), z = s * s, sum = 1.0 / 21;
    for (int k = 0; k < 10; k++) sum = sum * z + parts[k];
    return (double)e * QC_LN2 + 2 * s * sum;
}

/* e^x for |x| <= 700: x = k ln 2 + r, |r| <= ln(2) / 2, Taylor series to degree 14. */
static inline double qc_exponential(double x)
{
    double half = x < 0 ? -0.5 : 0.5;
    int k = (int)(x / QC_LN2 + half);
    double r = x - (double)k * QC_LN2, sum = 1;
    static const double parts[] = {1.0 / 14, 1.0 / 13, 1.0 / 12, 1.0 / 11, 1.0 / 10, 1.0 / 9, 1.0 / 8,
                                   1.0 / 7,  1.0 / 6,  1.0 / 5,  1.0 / 4,  1.0 / 3,  1.0 / 2, 1.0};
    for (int i = 0; i < 14; i++) sum = 1 + r * parts[i] * sum;
    uint64_t u = (uint64_t)(k + 1023) << 52;
    double power;
    memcpy(&power, &u, sizeof power);
    return power * sum;
}

/* The nearest integer, half to even, inlined: adding and subtracting 1.5 * 2^52 rounds. As nearbyint, except for the
   sign of 0. */
static inline double qc_nearest(double x)
{
    const double magic = 0x1.8p52;
    return fabs(x) < 0x1p51 ? (x + magic) - magic : nearbyint(x);
}

/* x^p for x >= 0, p > 0; 0 if the result is below e^-700, at most e^700. Integer powers are products. */
static inline double qc_power(double x, double p)
{
    enum { WHOLE = 9 };
    const double least = 0x1p-1009, most = 0x1p1009; /* about e^-700 and e^700 */
    if (x < 0x1p-1000) return 0;
    const int n = p <= WHOLE ? (int)p : 0;
    if ((double)n >= p) {
        double product = x;
        for (int i = 1; i < n; i++) product *= x;
        return product < least ? 0 : product > most ? most : product;
    }
    double e = p * qc_logarithm(x);
    return e < -700 ? 0 : qc_exponential(e > 700 ? 700 : e);
}
