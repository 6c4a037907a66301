// SPDX-License-Identifier: Apache-2.0
/* Ranges from few samples: an unseen sample is likely to exceed all samples seen. Maxima of samples are assumed to
   follow Gumbel's law, the limit of maxima. If s is their standard deviation, the largest of N samples exceeds the
   largest of n on average by sqrt(6) / pi s ln(N / n) (Gumbel 1958, "Statistics of Extremes"). N is QC_MANY_SAMPLES:
   from there on calib/ranges/expected_error.h applies. */
#pragma once

#include "observers/histogram.h"
#include "observers/observer.h"
#include "observers/series.h"

enum { QC_MANY_SAMPLES = 32 };

/* Returns true if the values look like integers of 8 bits: at least 1,024 values that fill at most 256 bins. */
bool qc_were_integers(const struct qc_histogram *h);

/* Widens a range in proportion to the expected excess of each end over the samples' extremes. An end moves to at most
   twice its distance from 0, and not beyond the known bounds. Changes nothing with one sample, with QC_MANY_SAMPLES or
   more, or if the values look like integers. */
void qc_widen_for_few(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                      double known_lo, double known_hi);
