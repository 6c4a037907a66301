// SPDX-License-Identifier: Apache-2.0
/* The accuracy metric of a network, as calib/metrics/accuracy.h measures it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum qc_metric_kind { QC_METRIC_NONE, QC_METRIC_TOP1, QC_METRIC_PSNR };

struct qc_metric {
    enum qc_metric_kind kind;
    const char *name; /* "top1" or "psnr" */
    double value;     /* top1: 0 to 1; psnr: dB (infinity when equal) */
    double top5;      /* NaN with fewer than 6 classes, or without labels */
    double mse;       /* NaN without a target */
    double low, high; /* top1: exact 95 % interval; NaN otherwise */
    double nll;       /* top1: mean negative log-likelihood of the labels, in nats; else NaN */
    size_t positions; /* top1 of sequences: number of labels counted; else 0 */
    size_t classes;   /* top1: number of classes; else 0 */
    size_t samples;
    double seconds; /* of the runs */
};

/* Returns the drop of the metric: points of top-1, or dB of PSNR. */
double qc_metric_drop(const struct qc_metric *from, const struct qc_metric *to);

/* Returns true if top1, on at least 50 samples, is near chance: Cohen's kappa against uniform guesses, (value -
   1/classes) / (1 - 1/classes), is below 0.1. */
bool qc_metric_is_chance_level(const struct qc_metric *m);
