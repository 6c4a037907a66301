// SPDX-License-Identifier: Apache-2.0
/* Finds where error enters a quantized graph, from the measured noise of its values, without another run. With N =
   noise / signal of a value against the float network, an op adds N(result) - max N(inputs). This is the growth of the
   relative error: an op that cancels signal adds error just as one that rounds. */
#pragma once

#include "calib/metrics/measure.h"
#include "export/report/report.h"

/* An op that adds noise. */
struct qc_noise_point {
    qc_id node;           /* of the folded graph */
    size_t layer;         /* of its result in the report; QC_NO_INDEX for a float output of the graph */
    double before, after; /* N of its inputs (0: exact) and of its result */
};

struct qc_noise_points {
    size_t count;
    struct qc_noise_point *points; /* sorted by the noise added, most first */
    /* [value_count + 1]: the layer where the noise of a value was measured, its own or an earlier one; or QC_NO_INDEX
     */
    size_t *source;
};

/* Finds the points of g, the folded graph. r: has its layers and outputs. Arrays are allocated in a. */
bool qc_noise_points_find(struct qc_noise_points *out, const struct qc_graph *g, const struct qc_measurement *m,
                          const struct qc_report *r, struct qc_arena *a, struct qc_status *st);

/* Estimates the share of the output noise that each quantizer makes [qparams_count + 1], without a run. The noise of
   each value and of its own rounding were measured; the rest of the noise comes from the inputs of its op. g and r: as
   above. */
bool qc_noise_believed(double **out, const struct qc_graph *g, const struct qc_measurement *m,
                       const struct qc_report *r, struct qc_arena *a, struct qc_status *st);

/* Returns noise / signal of a weight's rounding. If the layer's error is known from second moments, it is multiplied by
   the ratio of that error to the one of nearest rounding, at most 1. */
double qc_weight_noise(const struct qc_layer *l);

/* Returns noise / signal for an SQNR in dB; NaN for NaN. */
double qc_noise_ratio(double db);
