// SPDX-License-Identifier: Apache-2.0
/* What a range cuts off of samples that it was not made from.

   A range is made so that it cuts off what is worth it on the samples that were seen; of others it is more, since the
   largest values come in few samples and the next one may go further. How far maxima go beyond some height has an
   exponential law, the limit for light tails (Pickands 1975, "Statistical inference using extreme order statistics"):
   with the mean m of that the squared error of cutting off at T is that of cutting off at the height times
   exp(-(T - height) / m). What was seen falls below it toward the largest value, where it is 0; the truth is between.
 */
#ifndef QC_CALIB_RANGES_UNSEEN_H
#define QC_CALIB_RANGES_UNSEEN_H

#include "observers/histogram.h"
#include "observers/observer.h"
#include "observers/series.h"

enum { QC_UNSEEN_MOST = 64 };

struct qc_unseen {
    double clip; /* how often errors of clipped values count */
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    double known_lo, known_hi; /* what no value is beyond */
};

/* Moves the ends of a range that was chosen by squared errors outwards, to the least sum of the error of rounding and
   of what is expected to be cut off. Only with QC_MANY_SAMPLES to QC_UNSEEN_MOST samples: of fewer, ranges are wider as
   it is (calib/ranges/few_samples.h), and of more it is known. Not of values that were integers. */
bool qc_widen_for_unseen(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                         const struct qc_unseen *unseen, struct qc_status *st);

#endif
