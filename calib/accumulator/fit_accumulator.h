// SPDX-License-Identifier: Apache-2.0
/* Raises scales of weights so that narrow accumulators do not overflow (docs/decisions/0013-narrow-accumulators.md). */
#pragma once

#include "calib/ranges/calibrate.h"

/* The criterion for an accumulator that fits. PROVEN: every partial sum that the weights and the levels of the input
   allow, in any order: bias + sum of max(w lo, w hi) over the products, and the same below. SEEN: the partial sums over
   the data, in the order of simq/core/accumulator.h, with a margin of a quarter. AUTO: PROVEN for layers whose scales
   then at most double, SEEN for others. */
enum qc_accumulator_bound { QC_BOUND_AUTO, QC_BOUND_PROVEN, QC_BOUND_SEEN };

struct qc_fit_options {
    struct qc_accumulator accumulator; /* 2 to 31 bits */
    enum qc_accumulator_bound bound;
    struct qc_run_options run;
};

/* g: simulated, all quantizers bound. Raises the scale of each weight channel (or the weight's only scale) in steps of
   1/64 until the accumulators of its layers fit, and binds the quantizers again. c->choices of these quantizers tell
   how many scales were raised and how far. With AUTO and SEEN the chosen samples run until none overflows, with at most
   four raises; data may be NULL with PROVEN. Warnings name what still overflows, products of two activations included.
   Fails if a run fails. */
bool qc_fit_accumulators(struct qc_calibration *c, struct qc_graph *g, const struct qc_dataset *data,
                         const struct qc_fit_options *o, struct qc_status *st);
