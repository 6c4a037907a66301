// SPDX-License-Identifier: Apache-2.0
/* What the options of a job say to calibration and measurements: resolved once, and const from then on. */
#pragma once

#include "base/pool.h"
#include "simq/plan/plan.h"

enum {
    QC_SOME_UNITS = 16,  /* units of a first look, which decides whether and how the others run */
    QC_MANY_SAMPLES = 32 /* with fewer, an unseen sample is likely to exceed all samples seen */
};

/* The criterion for an accumulator that fits. PROVEN: every partial sum that the weights and the levels of the input
   allow, in any order: bias + sum of max(w lo, w hi) over the products, and the same below. SEEN: the partial sums over
   the data, in the order of simq/core/kernel.h, with a margin of a quarter. AUTO: PROVEN for layers whose scales
   then at most double, SEEN for others. */
enum qc_accumulator_bound { QC_BOUND_AUTO, QC_BOUND_PROVEN, QC_BOUND_SEEN };

struct qc_settings {
    unsigned workers;    /* of a run over data: upper limit */
    size_t memory_limit; /* bytes; 0: none */
    qc_pool_progress_fn *progress;
    void *progress_user;
    struct qc_plan_options plan; /* of the quantized graph: accumulator, rounding and lowering */
    enum qc_accumulator_bound bound;
    bool compensate;      /* weights are rounded with compensation (calib/weights/compensation.h) */
    bool correct_bias;    /* biases absorb the mean error of the outputs */
    bool add_ops;         /* allow a new float Add for a bias that no operator can take */
    bool look_through;    /* measure errors of a quantizer after the function that reads its values
                             (graph/core/function.h) */
    bool nonfinite_error; /* NaN or infinity in the data is an error; otherwise they are counted and left out */
};

/* Returns true if weights are rounded by second moments, or biases corrected with them. */
static inline bool qc_rounds_weights(const struct qc_settings *s)
{
    return s->compensate || s->correct_bias;
}
