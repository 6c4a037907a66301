// SPDX-License-Identifier: Apache-2.0
/* A histogram for every channel of a tensor: those of observers/histogram.h, coarser. A bin is 1/16 octave (8 bits of
   exponent and 4 of mantissa are its key); kept are the 255 keys (almost 16 octaves) that end with the octave of the
   channel's largest finite magnitude, for each sign; what is smaller goes to one "tiny" counter per sign. 4 KiB a
   channel. As there, the content is a function of the multiset of values alone: same bytes for any order, workers or
   merge tree.

   Exact zeros are counted apart; NaN and infinities are left out (the tensor's own histogram counts them). */
#pragma once

#include "observers/histogram.h"

enum {
    QC_CHANNEL_OCTAVE_BINS = 16,
    QC_CHANNEL_WINDOW_BINS = 256, /* counters per sign; counter 0 is "tiny" */
    QC_CHANNELS_MAX = 8192        /* tensors of more channels have no statistics of them */
};

struct qc_channel_tally {
    uint64_t count, zeros; /* finite values, zeros included; zeros */
    float min, max;        /* of the finite values; -0 reads as 0; both 0 when count is 0 */
    int32_t exponent; /* biased exponent field of the largest finite magnitude; -1 when there is no value but zeros */
};

struct qc_channel_histogram {
    int axis; /* of the tensor: its channels */
    size_t channels;
    struct qc_channel_tally *tallies; /* [channels] */
    uint64_t *counts;                 /* [channels][2][QC_CHANNEL_WINDOW_BINS], positive values first */
};

bool qc_channel_histogram_new(struct qc_channel_histogram **out, int axis, size_t channels, struct qc_status *st);
void qc_channel_histogram_free(struct qc_channel_histogram *h); /* NULL-safe */
size_t qc_channel_histogram_bytes(size_t channels);

/* Adds values, x[channels][n]. */
void qc_channel_histogram_take(struct qc_channel_histogram *h, const float *x, size_t n);
/* Adds what another one of as many channels holds (assert); axes may differ. */
void qc_channel_histogram_add(struct qc_channel_histogram *to, const struct qc_channel_histogram *from);

/* Channel c as a histogram with counts, which becomes this and nothing else: extremes, counts and zeros are exact, the
   values of a coarse bin are spread evenly over those of its fine bins that the extremes allow, tiny ones lie right
   below the window. Errors: memory. */
bool qc_channel_histogram_fine(struct qc_histogram *out, const struct qc_channel_histogram *h, size_t c,
                               struct qc_status *st);

/* A value of channel c counts gain[c] QC_CHANNEL_UNIT instead of once: adds the counters of h, the histogram of the
   whole tensor, so weighted to `to` (with counts; its tally and low bits become those of h and `to` joined, with counts
   in the same units). What of a fine bin is of which channel is told by the coarse bin around it. 0 <= gain[c] <= 1; c
   NULL: all values count gain[0]. Errors: memory. */
enum { QC_CHANNEL_UNIT = 1 << 16 };
bool qc_channel_histogram_weigh(struct qc_histogram *to, const struct qc_histogram *h,
                                const struct qc_channel_histogram *c, const double *gain, struct qc_status *st);
