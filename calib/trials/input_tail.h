// SPDX-License-Identifier: Apache-2.0
/* How far the next sample of an input may go, from those that were seen.

   What a range cuts off is known from the samples that it was made from. Where one or two of them carry nearly all of
   it, large values come in few samples and many at once (a loud recording, a walk that went far), so the next sample
   may lie far outside and be cut off as much as nothing that was seen. What a range does to a sample that it was not
   made from shows when each sample is left out in turn and meets the range of the others. */
#ifndef QC_CALIB_TRIALS_INPUT_TAIL_H
#define QC_CALIB_TRIALS_INPUT_TAIL_H

#include "arith/params.h"
#include "datasets/samples/dataset.h"

enum qc_input_reach {
    QC_REACH_USUAL, /* as far as an observer says, in proportion to the extremes */
    QC_REACH_WHOLE, /* all that was seen */
    QC_REACH_BEYOND /* as far as twice as many samples go on average, by Gumbel's law (calib/ranges/few_samples.h) */
};

struct qc_input_tail {
    /* (sum e)^2 / sum e^2 over the units, where e is the squared error of cutting off the values to the usual range: as
       many as all of which the same is cut off; 0 where nothing is. Values that are no number do not count. */
    double units;
    bool few;      /* so few that what the usual range cuts off of others is not known; only then the rest is, too */
    double lo, hi; /* extremes of all units */
    double lo_times, hi_times; /* how many times as far QC_REACH_BEYOND goes */
    double error[3];           /* by enum qc_input_reach: mean squared error of a value of a unit left out */
};

/* Of a float32 input and the parameters that an observer chose for it. */
bool qc_input_tail_of(struct qc_input_tail *tail, const struct qc_dataset *data, size_t input,
                      const struct qc_affine *usual, struct qc_levels levels, enum qc_symmetry symmetry,
                      unsigned workers, struct qc_status *st);

#endif
