// SPDX-License-Identifier: Apache-2.0
/* What a range of least squared error cuts off of samples that it was not made from.

   Such a range cuts off what is worth it on the samples that were seen; of others it is more, since the largest values
   come in few samples and the next one may go further. How far maxima of samples go beyond some height has an
   exponential law, the limit for light tails (Pickands 1975, "Statistical inference using extreme order statistics").
   Of k maxima beyond the height, whose excesses add up to s, the next one exceeds the height by more than t with the
   probability (1 + t / s)^-k, the predictive law of an exponential whose mean is not known. So the squared error of
   cutting off at T is expected to be that of cutting off at the height times (1 + (T - height) / s)^-k. What was seen
   falls below it toward the largest value, where it is 0; the truth is between, nearer to what was seen the more
   samples there are. */
#pragma once

#include "observers/histogram.h"
#include "observers/observer.h"
#include "observers/series.h"

enum { QC_UNSEEN_MOST = 256 }; /* of more samples what was seen is enough */

struct qc_unseen {
    double clip; /* how often errors of clipped values count */
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    double known_lo, known_hi; /* what no value is beyond */
};

/* Moves the ends of a range that was chosen by squared errors outwards, to the least sum of the error of rounding and
   of what is expected to be cut off; with QC_MANY_SAMPLES to
   QC_UNSEEN_MOST samples (of fewer: calib/ranges/few_samples.h). Not of values that were integers. */
bool qc_widen_for_unseen(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                         const struct qc_unseen *unseen, struct qc_status *st);
