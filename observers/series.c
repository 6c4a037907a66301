// SPDX-License-Identifier: Apache-2.0
#include "observers/observer.h"

#include <math.h>

#include "observers/scan_kernel.h"

struct qc_extremes qc_extremes_join(struct qc_extremes a, struct qc_extremes b)
{
    if (b.min < a.min) a.min = b.min;
    if (b.max > a.max) a.max = b.max;
    return a;
}

struct qc_extremes qc_extremes_of(const float *x, size_t n, uint64_t sample)
{
    const struct qc_scan_kernels *kernels = qc_scan_best();
    struct qc_extremes all = {.sample = sample, .min = INFINITY, .max = -INFINITY};
    for (size_t at = 0; at < n; at += QC_SCAN_BLOCK) {
        size_t m = n - at < QC_SCAN_BLOCK ? n - at : QC_SCAN_BLOCK;
        struct qc_block f;
        kernels->facts(&f, x + at, m);
        if (f.magnitude < QC_INFINITY_BITS) {
            all = qc_extremes_join(all, (struct qc_extremes){.min = f.min + 0.0f, .max = f.max + 0.0f});
            continue;
        }
        for (size_t i = at; i < at + m; i++)
            if (isfinite(x[i]))
                all = qc_extremes_join(all, (struct qc_extremes){.min = x[i] + 0.0f, .max = x[i] + 0.0f});
    }
    return all;
}
