// SPDX-License-Identifier: Apache-2.0
/* The metric of calib/metrics/accuracy.h unit by unit: reading the truth, scoring an output, summing units. */
#pragma once

#include "calib/metrics/metric.h"
#include "calib/statistics/stream.h"

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
