// SPDX-License-Identifier: Apache-2.0
/* Quantizers with a scale and a zero point for each channel. */
#pragma once

#include "calib/settings.h"
#include "graph/core/uses.h"
#include "observers/channel_histogram.h"
#include "observers/histogram.h"
#include "observers/observer.h"
#include "observers/outline.h"
#include "simq/core/view.h"

struct qc_quantizer_channels {
    size_t count;
    float *scale;        /* [count] */
    int32_t *zero_point; /* [count] */
};

/* Chooses a range for each channel from its own histogram, and fills the arrays of out, whose count is that of h.
   *range: the union of all channels' ranges, with the clipped share of all values. *loss: over all channels. Each end
   of a range is at least an eighth of that of the union. Fails if the observer fails or memory is out. */
bool qc_quantizer_channels_solve(struct qc_quantizer_channels *out, struct qc_range *range, struct qc_loss *loss,
                                 const struct qc_channel_histogram *h, const struct qc_qparams *s,
                                 const struct qc_observer *observer, const struct qc_observer_values *values,
                                 const struct qc_solve *request, struct qc_status *st);

/* Turns v, float32 with qparams of one scale per index of `axis`, into real numbers in place. stored: v holds levels;
   else levels minus the zero point. saturated: NULL, or incremented by the number of values at the ends of the levels.
 */
void qc_quantizer_channels_real(const struct qc_view *v, const struct qc_qparams *s, int axis, bool stored,
                                uint64_t *saturated);

/* Returns true if a quantizer of activations of a simulated graph has a scale per channel. */
bool qc_quantizers_have_channels(const struct qc_graph *g);

/* Returns the axis along which a value of a simulated graph is stored in a quantizer, or -1 if it is not stored there.
 */
int qc_quantizer_axis(const struct qc_uses *u, qc_id quantizer, qc_id value);

/* The clipping error of a least-squares range on unseen samples.

   A least-squares range clips what pays on the samples seen. Unseen samples lose more, since few samples hold the
   largest values and the next one may go further. The excess of sample maxima over a height follows an exponential law,
   the limit for light tails (Pickands 1975, "Statistical inference using extreme order statistics"). If k maxima exceed
   the height and their excesses add up to s, the next one exceeds it by more than t with probability (1 + t / s)^-k,
   the predictive law of an exponential with unknown mean. So the expected squared error of clipping at T is that of
   clipping at the height times (1 + (T - height) / s)^-k. The observed error falls below this law toward the largest
   value, where it is 0. The estimate lies between both, nearer to the observed error with more samples. */

enum { QC_UNSEEN_MOST = 256 }; /* with more samples the observed error suffices */

struct qc_unseen {
    double clip; /* factor of clipping errors */
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    double known_lo, known_hi; /* no value lies beyond */
};

/* Moves the ends of a least-squares range outwards, to the least sum of rounding error and expected clipping error.
   Changes nothing with less than QC_MANY_SAMPLES or more than QC_UNSEEN_MOST samples, or
   if the values look like integers. Fails if memory is out. */
bool qc_widen_for_unseen(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                         const struct qc_unseen *unseen, struct qc_status *st);

/* Ranges from few samples: an unseen sample is likely to exceed all samples seen. Maxima of samples are assumed to
   follow Gumbel's law, the limit of maxima. If s is their standard deviation, the largest of N samples exceeds the
   largest of n on average by sqrt(6) / pi s ln(N / n) (Gumbel 1958, "Statistics of Extremes"). N is QC_MANY_SAMPLES:
   from there on qc_widen_for_unseen applies.

   Widens a range in proportion to the expected excess of each end over the samples' extremes. An end moves to at most
   twice its distance from 0, and not beyond the known bounds. Changes nothing with one sample, with QC_MANY_SAMPLES or
   more, or if the values look like integers. */
void qc_widen_for_few(struct qc_range *range, const struct qc_histogram *seen, const struct qc_series *series,
                      double known_lo, double known_hi);
