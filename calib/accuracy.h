// SPDX-License-Identifier: Apache-2.0
/* Metric of graphs on labelled data. Counts are integers and sums are added in the order of the samples: the same result for any
   number of workers.
   With `labels`: top1 and top5, the share of labels whose class is the (among the five) largest of the output's class scores. The
   output is that with as many elements as labels times classes - of several the one with the fewest classes that are enough for the labels -; ties go to
   the lower class number.
   With `target`: mse and psnr = 10 log10(peak^2 / mse) in dB over all elements of all samples; the output is clamped to [0, peak]
   (as an image is when it is stored) unless the target itself goes beyond. */
#ifndef QC_CALIB_ACCURACY_H
#define QC_CALIB_ACCURACY_H

#include "calib/stream.h"

enum qc_metric_kind { QC_METRIC_NONE, QC_METRIC_TOP1, QC_METRIC_PSNR };

struct qc_metric {
    enum qc_metric_kind kind;
    const char *name; /* "top1" or "psnr" */
    double value;     /* top1: 0 to 1; psnr: dB (infinity when equal) */
    double top5;      /* NaN with fewer than 6 classes or without labels */
    double mse;       /* NaN without a target */
    double low, high; /* top1: exact 95 % interval; NaN otherwise */
    size_t classes;   /* top1: how many the output tells apart; else 0 */
    size_t samples;
    double seconds; /* of the runs */
};

/* How far a metric falls: points of top-1, or dB of PSNR. */
double qc_metric_drop(const struct qc_metric *from, const struct qc_metric *to);

/* What an evaluation takes with one worker; data give the shapes alone. */
bool qc_evaluate_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data, const struct qc_plan_options *how, struct qc_status *st);

/* Evaluates one graph. data must be opened with options.truth and the graph's inputs; errors: neither labels nor target
   (QC_BAD_INPUT), no output that fits them. how may be NULL. */
bool qc_evaluate_graph(struct qc_metric *out, const struct qc_graph *g, const struct qc_dataset *data,
                       const struct qc_plan_options *how, unsigned workers, size_t memory_limit,
                       qc_pool_progress_fn *progress, void *progress_user, struct qc_status *st);

/* Is this what guessing gives? top1 on at least 50 samples with (value - 1/classes) / (1 - 1/classes), Cohen's kappa against even guesses, below 0.1. */
bool qc_metric_is_chance(const struct qc_metric *m);

/* The same, and what accumulators of few bits did; from the arena. */
bool qc_evaluate_sums(struct qc_metric *out, struct qc_overflows *overflows, struct qc_arena *a, const struct qc_graph *g,
                      const struct qc_dataset *data, const struct qc_plan_options *how, unsigned workers, size_t memory_limit,
                      qc_pool_progress_fn *progress, void *progress_user, struct qc_status *st);

#endif
