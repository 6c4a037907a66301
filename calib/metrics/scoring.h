// SPDX-License-Identifier: Apache-2.0
/* The metric of calib/metrics/accuracy.h, unit by unit: what the truth is, how an output does by it, and the sum over
 * units. */
#pragma once

#include "calib/metrics/metric.h"
#include "calib/statistics/stream.h"

/* Of one unit, or of several added up in their order. */
struct qc_score {
    uint64_t labels, top1, top5;
    double clamped, plain;      /* squared errors, of the output clamped to [0, peak] and as it is */
    double nll;                 /* negative log-likelihoods of the labels, in nats */
    uint64_t elements, outside; /* outside: elements of the target beyond [0, peak] */
};

struct qc_scoring {
    const struct qc_dataset *data;
    size_t output;           /* of the graph, that the truth belongs to */
    const char *output_name; /* borrowed from the graph */
    float scale;             /* of an output of 8 or 16 bits; 0: it is float32 */
    int32_t zero_point;
    size_t classes;                   /* 0: a target */
    size_t label_count, target_count; /* of one unit, the largest */
    bool by_position;                 /* of sequences: labels below 0 are left out */
    bool class_first;                 /* [N,C,T...], else [N,T...,C] */
    bool probabilities;               /* the output is a softmax's; else a row that sums to one is taken for it */
    double peak;
};

/* Finds the output of g; probe: a runner of a plan of g for the data. If no float output fits, an output of 8 or 16
 * bits is taken that QuantizeLinear makes with constant parameters; it is scored as the numbers that it stands for.
 * Errors: neither labels nor target, no output that fits them (QC_BAD_INPUT). */
bool qc_scoring_begin(struct qc_scoring *out, const struct qc_graph *g, struct qc_runner *probe,
                      const struct qc_dataset *data, struct qc_status *st);

/* The truth of a unit: so many bytes, int64 labels or a float32 target. */
size_t qc_scoring_truth_bytes(const struct qc_scoring *s);
bool qc_scoring_read(void *truth, const struct qc_scoring *s, size_t unit, struct qc_dataset_scratch *scratch,
                     struct qc_status *st);

/* y: output number `output` of a run of this unit. Errors: a label that is no class, an output that is larger or
   smaller than the truth asks for, with its sample. */
bool qc_scoring_unit(struct qc_score *out, const struct qc_scoring *s, const struct qc_view *y, const void *truth,
                     size_t unit, struct qc_status *st);

void qc_score_add(struct qc_score *to, const struct qc_score *t);
/* seconds stay 0. */
void qc_scoring_metric(struct qc_metric *out, const struct qc_scoring *s, const struct qc_score *all);
