// SPDX-License-Identifier: Apache-2.0
/* Scales of weights that keep accumulators of few bits from overflowing (docs/decisions/0013-narrow-accumulators.md).
 */
#pragma once

#include "calib/ranges/calibrate.h"

/* What decides that an accumulator fits. PROVEN: every partial sum that the weights and the levels of the input allow,
   in any order: bias + sum of max(w lo, w hi) over the products, and the same below. SEEN: the partial sums over the
   data, in the order of simq/core/accumulator.h, with a quarter to spare. AUTO: PROVEN for layers whose scales then at
   most double, SEEN for the others. */
enum qc_accumulator_bound { QC_BOUND_AUTO, QC_BOUND_PROVEN, QC_BOUND_SEEN };

struct qc_fit_options {
    struct qc_accumulator accumulator; /* 2 to 31 bits */
    enum qc_accumulator_bound bound;
    unsigned workers;
    size_t memory_limit;
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* g: simulated, all quantizers bound. Raises the scale of each weight channel (of the whole weight where it has one
   scale) until the accumulators of the layers that use it fit, in steps of 1/64, and binds the quantizers again;
   c->choices of these quantizers say how many scales were raised and how far. With AUTO and SEEN the chosen samples of
   data are run until none of them overflows, four times at most; data may be NULL with PROVEN. A warning names what is
   left: products of two activations, and what still overflows. */
bool qc_fit_accumulators(struct qc_calibration *c, struct qc_graph *g, const struct qc_dataset *data,
                         const struct qc_fit_options *o, struct qc_status *st);
