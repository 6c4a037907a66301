// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: sums and extremes over lines of float32. The order of summation is fixed (sixteen partial sums in
   double, combined from the left), so the bits do not depend on the processor. */
#pragma once

#include <stdint.h>

#include "base/simd.h"

/* Put before a loop that gcc vectorises, unless it is unrolled first. */
#if defined(__GNUC__) && !defined(__clang__)
#define QC_NOT_UNROLLED _Pragma("GCC unroll 1")
#else
#define QC_NOT_UNROLLED
#endif

enum { QC_LINE_PARTS = 16 };

static QC_INLINE double qc_line_join(const double part[QC_LINE_PARTS])
{
    double sum = 0;
    for (int k = 0; k < QC_LINE_PARTS; k++) sum += part[k];
    return sum;
}

/* Returns the sum of (x - shift). */
static QC_INLINE double qc_line_sum(const float *x, int64_t n, double shift)
{
    double part[QC_LINE_PARTS] = {0};
    int64_t i = 0;
    for (; i + QC_LINE_PARTS <= n; i += QC_LINE_PARTS)
        for (int k = 0; k < QC_LINE_PARTS; k++) part[k] += (double)x[i + k] - shift;
    for (int k = 0; i < n; i++, k++) part[k] += (double)x[i] - shift;
    return qc_line_join(part);
}

/* Returns the sum of (x - shift)^2. */
static QC_INLINE double qc_line_squares(const float *x, int64_t n, double shift)
{
    double part[QC_LINE_PARTS] = {0};
    int64_t i = 0;
    for (; i + QC_LINE_PARTS <= n; i += QC_LINE_PARTS) {
        for (int k = 0; k < QC_LINE_PARTS; k++) {
            const double d = (double)x[i + k] - shift;
            part[k] += d * d;
        }
    }
    for (int k = 0; i < n; i++, k++) part[k] += ((double)x[i] - shift) * ((double)x[i] - shift);
    return qc_line_join(part);
}

/* Returns the greatest of n > 0 numbers. NaN is ignored, except in the first position. */
static QC_INLINE float qc_line_max(const float *x, int64_t n)
{
    float part[QC_LINE_PARTS];
    int64_t i = 0;
    for (int k = 0; k < QC_LINE_PARTS; k++) part[k] = x[0];
    for (; i + QC_LINE_PARTS <= n; i += QC_LINE_PARTS) {
        QC_NOT_UNROLLED
        for (int k = 0; k < QC_LINE_PARTS; k++) part[k] = x[i + k] > part[k] ? x[i + k] : part[k];
    }
    for (; i < n; i++) part[0] = x[i] > part[0] ? x[i] : part[0];
    for (int half = QC_LINE_PARTS / 2; half > 0; half /= 2)
        for (int k = 0; k < half; k++) part[k] = part[k + half] > part[k] ? part[k + half] : part[k];
    return part[0];
}
