// SPDX-License-Identifier: Apache-2.0
#include "calib/metrics/metric.h"

bool qc_metric_is_chance_level(const struct qc_metric *m)
{
    if (m->kind != QC_METRIC_TOP1 || m->samples < 50 || m->classes < 2) return false;
    const double guess = 1 / (double)m->classes;
    return (m->value - guess) / (1 - guess) < 0.1;
}

double qc_metric_drop(const struct qc_metric *from, const struct qc_metric *to)
{
    return from->kind == QC_METRIC_PSNR ? from->value - to->value : 100 * (from->value - to->value);
}
