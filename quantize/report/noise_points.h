// SPDX-License-Identifier: Apache-2.0
/* Where error enters a quantized graph, from the measured noise of its values: no other run is needed. With N = noise /
   signal of a value against the float network, an op adds N(what it makes) - max N(what it reads). It is the growth of
   the relative error: an op that cancels signal adds by that as much as one that rounds. */
#pragma once

#include "calib/metrics/measure.h"
#include "export/report/report.h"

/* An op that adds noise. */
struct qc_noise_point {
    qc_id node;           /* of the folded graph */
    size_t layer;         /* of the report that it makes, or QC_NO_INDEX: a graph output in float */
    double before, after; /* N of what it reads (0: exact) and of what it makes */
};

struct qc_noise_points {
    size_t count;
    struct qc_noise_point *points; /* those that add most first */
    /* [value_count + 1]: the layer at which a value's noise was measured, behind it or there; or QC_NO_INDEX */
    size_t *source;
};

/* g: the folded graph, r: with its layers and outputs. Arrays live in a. Errors: memory. */
bool qc_noise_points_find(struct qc_noise_points *out, const struct qc_graph *g, const struct qc_measurement *m,
                          const struct qc_report *r, struct qc_arena *a, struct qc_status *st);

/* The share of the outputs' noise that each quantizer is believed to make [qparams_count + 1]: how much noise there is
   at every value was measured, and of that what its own rounding makes; the rest came by what its op reads. Nothing is
   run. g and r: as above. */
bool qc_noise_believed(double **out, const struct qc_graph *g, const struct qc_measurement *m,
                       const struct qc_report *r, struct qc_arena *a, struct qc_status *st);

/* Noise to signal of a weight's rounding: compensated, its errors make each other good in the result. */
double qc_weight_noise(const struct qc_layer *l);

/* noise / signal of an SQNR in dB; NaN of NaN. */
double qc_noise_ratio(double db);
