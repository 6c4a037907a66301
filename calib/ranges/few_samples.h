// SPDX-License-Identifier: Apache-2.0
/* Ranges from few samples: the next sample goes further than all that were seen. The largest values of the samples are
   taken to have Gumbel's law, the limit of maxima; with a standard deviation s of them the largest of N samples is, on
   average, sqrt(6) / pi s ln(N / n) above the largest of n (Gumbel 1958, "Statistics of Extremes"). N is 32: with as
   many samples nothing is changed here (calib/ranges/expected_error.h). */
#pragma once

#include "observers/histogram.h"
#include "observers/observer.h"
#include "observers/series.h"

enum { QC_MANY_SAMPLES = 32 };

/* Of so many values, no more sizes than 8 bits have? */
bool qc_were_integers(const struct qc_histogram *h);

/* Widens a range that an observer chose by what both ends of the samples are to reach beyond what they have reached, in
   proportion to that, at most to twice its width; not beyond what is known. Left alone: a range from one sample or from
   QC_MANY_SAMPLES, and values of no more sizes than 8 bits have: they were integers, whose range is that of a type. */
void qc_widen_for_few(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                      double known_lo, double known_hi);
