// SPDX-License-Identifier: Apache-2.0
/* Accuracy of a graph on labelled data. Counts are integers and sums are added in the order of the samples, so the
   result is the same for any number of workers.

   With `labels`: top1 and top5, the share of labels whose class has the largest, or one of the five largest, scores;
   and nll, their mean negative log-likelihood in nats. If samples have labels for each position ([N,T,...]), the
   classes are the output's last dimension or the one after the batch, and labels below 0 do not count. The scored
   output has as many elements as labels times classes. Of several such outputs the one with the fewest classes that
   cover the labels is scored. Ties go to the lower class number.

   With `target`: mse and psnr = 10 log10(peak^2 / mse) in dB over all elements of all samples. The output is clamped to
   [0, peak], as an image is when it is stored, unless the target itself exceeds that range. */
#pragma once

#include "calib/metrics/metric.h"
#include "calib/statistics/stream.h"

/* Computes the bytes that an evaluation with one worker needs; data give only the shapes. */
bool qc_evaluate_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                       const struct qc_plan_options *how, struct qc_status *st);

/* A graph to evaluate, and options. */
struct qc_evaluation {
    const struct qc_graph *graph;
    const struct qc_dataset *data;     /* opened with options.truth and the graph's inputs */
    const struct qc_plan_options *how; /* NULL: defaults */
    struct qc_run_options run;
};

/* Evaluates one graph; overflows: those of narrow accumulators, in the arena. Fails with QC_BAD_INPUT if the data have
   neither labels nor a target, or if no output fits them, or if a run fails. */
bool qc_evaluate_sums(struct qc_metric *out, struct qc_overflows *overflows, const struct qc_evaluation *of,
                      struct qc_arena *a, struct qc_status *st);
