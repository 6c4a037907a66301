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

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "calib/statistics/stream.h"

/* OWN: of a program of the user's own (quantize/search/own_metric.h). */
enum qc_metric_kind { QC_METRIC_NONE, QC_METRIC_TOP1, QC_METRIC_PSNR, QC_METRIC_OWN };

struct qc_metric {
    enum qc_metric_kind kind;
    bool lower_is_better; /* only of OWN */
    const char *name;     /* "top1", "psnr" or "metric" */
    double value;         /* top1: 0 to 1; psnr: dB (infinity when equal) */
    double top5;          /* NaN with fewer than 6 classes, or without labels */
    double mse;           /* NaN without a target */
    double low, high;     /* top1: 95 % interval (qc_interval); NaN otherwise */
    double nll;           /* top1: mean negative log-likelihood of the labels, in nats; else NaN */
    size_t positions;     /* top1 of sequences: number of labels counted; else 0 */
    size_t classes;       /* top1: number of classes; else 0 */
    size_t samples;
    double seconds; /* of the runs */
};

/* Returns the drop of the metric: points of top-1, dB of PSNR, or the loss in the unit of the program. */
double qc_metric_drop(const struct qc_metric *from, const struct qc_metric *to);

/* Returns true if top1, on at least 50 samples, is near chance: Cohen's kappa against uniform guesses, (value -
   1/classes) / (1 - 1/classes), is below 0.1. */
bool qc_metric_is_chance_level(const struct qc_metric *m);

/* Computes the bytes that an evaluation with one worker needs; data give only the shapes. */
bool qc_evaluate_bytes(size_t *out, const struct qc_graph *g, const struct qc_dataset *data,
                       const struct qc_plan_options *how, struct qc_status *st);

/* A graph to evaluate, and options. */
struct qc_evaluation {
    const struct qc_graph *graph;
    const struct qc_dataset *data;      /* opened with options.truth and the graph's inputs */
    const struct qc_plan_options *how;  /* NULL: defaults */
    const struct qc_settings *settings; /* workers, memory_limit and progress */
};

/* Evaluates one graph; overflows: those of narrow accumulators, in the arena. Fails with QC_BAD_INPUT if the data have
   neither labels nor a target, or if no output fits them, or if a run fails. */
bool qc_evaluate_sums(struct qc_metric *out, struct qc_overflows *overflows, const struct qc_evaluation *of,
                      struct qc_arena *a, struct qc_status *st);

/* The metric of calib/metrics/accuracy.h unit by unit: reading the truth, scoring an output, summing units. */

/* Score of one unit, or of several added in order. */
struct qc_score {
    uint64_t labels, top1, top5;
    double clamped, plain;      /* squared errors of the output clamped to [0, peak], and unclamped */
    double nll;                 /* negative log-likelihoods of the labels, in nats */
    uint64_t elements, outside; /* outside: elements of the target beyond [0, peak] */
};

struct qc_scoring {
    const struct qc_dataset *data;
    size_t output;           /* index of the graph output that is scored */
    const char *output_name; /* borrowed from the graph */
    float scale;             /* of an output of 8 or 16 bits; 0: the output is float32 */
    int32_t zero_point;
    size_t classes;                   /* 0: a target is scored */
    size_t label_count, target_count; /* of one unit; maxima */
    bool by_position;                 /* labels of sequences: those below 0 do not count */
    bool class_first;                 /* [N,C,T...], else [N,T...,C] */
    bool probabilities; /* a softmax makes the output; else rows that sum to one are taken as probabilities */
    double peak;
};

/* Finds the output of g to score. probe: a runner of a plan of g for the data. If no float output fits, an output of 8
   or 16 bits from a QuantizeLinear with constant parameters is taken and dequantized. Fails with QC_BAD_INPUT if there
   are neither labels nor a target, or if no output fits them. */
bool qc_scoring_begin(struct qc_scoring *out, const struct qc_graph *g, struct qc_runner *probe,
                      const struct qc_dataset *data, struct qc_status *st);

/* The truth of a unit: its size in bytes, and its int64 labels or float32 target. */
size_t qc_scoring_truth_bytes(const struct qc_scoring *s);
bool qc_scoring_read(void *truth, const struct qc_scoring *s, size_t unit, struct qc_dataset_scratch *scratch,
                     struct qc_status *st);

/* Scores y, output number `output` of a run of this unit. Fails, naming the sample, if a label is no class or the
   output's size does not match the truth. */
bool qc_scoring_unit(struct qc_score *out, const struct qc_scoring *s, const struct qc_view *y, const void *truth,
                     size_t unit, struct qc_status *st);

void qc_score_add(struct qc_score *to, const struct qc_score *t);
/* Computes the metric from the sum of all scores; `seconds` stays 0. */
void qc_scoring_metric(struct qc_metric *out, const struct qc_scoring *s, const struct qc_score *all);

/* Confidence interval of a proportion. */

/* Computes the two-sided interval for hits of n, n >= 1: 0 <= low <= hits / n <= high <= 1. confidence in (0, 1), such
   as 0.95. interval_beta.c: the exact one (Clopper and Pearson 1934), whose ends are quantiles of the beta
   distribution: low at (1 - c) / 2 of Beta(hits, n - hits + 1), high at (1 + c) / 2 of Beta(hits + 1, n - hits).
   interval_wilson.c, in a build without GSL: Wilson's (1927), from the normal distribution. */
void qc_interval(double *low, double *high, uint64_t hits, uint64_t n, double confidence);
