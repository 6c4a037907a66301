// SPDX-License-Identifier: Apache-2.0
/* Metric of graphs on labelled data. Counts are integers and sums are added in the order of the samples: the same
   result for any number of workers. With `labels`: top1 and top5, the share of labels whose class is the (among the
   five) largest of the output's class scores, and nll, their mean negative log-likelihood in nats. Where samples have
   labels for each of their positions ([N,T,...]) the classes are the output's last dimension or the one behind the
   batch, and labels below 0 do not count. The output is that with as many elements as labels times classes - of
   several the one with the fewest classes that are enough for the labels -; ties go to the lower class number. With
   `target`: mse and psnr = 10 log10(peak^2 / mse) in dB over all elements of all samples; the output is clamped to [0,
   peak] (as an image is when it is stored) unless the target itself goes beyond. */
#pragma once

#include "calib/metrics/metric.h"
#include "calib/statistics/stream.h"

/* What an evaluation takes with one worker; data give the shapes alone. */
bool qc_evaluate_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                       const struct qc_plan_options *how, struct qc_status *st);

/* What is evaluated, and how. */
struct qc_evaluation {
    const struct qc_graph *graph;
    const struct qc_dataset *data;     /* opened with options.truth and the graph's inputs */
    const struct qc_plan_options *how; /* NULL: as it comes */
    unsigned workers;
    size_t memory_limit;
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Evaluates one graph, and says what accumulators of few bits did (from the arena). Errors: neither labels nor target
   (QC_BAD_INPUT), no output that fits them. */
bool qc_evaluate_sums(struct qc_metric *out, struct qc_overflows *overflows, const struct qc_evaluation *of,
                      struct qc_arena *a, struct qc_status *st);
