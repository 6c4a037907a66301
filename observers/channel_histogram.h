// SPDX-License-Identifier: Apache-2.0
/* One histogram per channel of a tensor, coarser than observers/histogram.h. A bin is 1/16 octave: its key has 8 bits
   of exponent and 4 of mantissa. For each sign it keeps the 255 keys (almost 16 octaves) that end with the octave of
   the channel's largest finite magnitude; smaller values go to one "tiny" counter per sign. 4 KiB a channel. The
   content depends only on the multiset of values: the same bytes for any order, workers or merge tree.

   Exact zeros are counted separately; NaN and infinities are left out (the tensor's own histogram counts them). */
#pragma once

#include "observers/histogram.h"

enum {
    QC_CHANNEL_OCTAVE_BINS = 16,
    QC_CHANNEL_WINDOW_BINS = 256, /* counters per sign; counter 0 is "tiny" */
    QC_CHANNELS_MAX = 8192        /* tensors with more channels have no channel statistics */
};

struct qc_channel_tally {
    uint64_t count, zeros; /* finite values, zeros included; exact zeros */
    float min, max;        /* of the finite values; -0 reads as 0; both 0 if count is 0 */
    int32_t exponent;      /* biased exponent field of the largest finite magnitude; -1 if all values are zeros */
};

struct qc_channel_histogram {
    int axis; /* the tensor's channel axis */
    size_t channels;
    struct qc_channel_tally *tallies; /* [channels] */
    uint64_t *counts;                 /* [channels][2][QC_CHANNEL_WINDOW_BINS], positive values first */
};

bool qc_channel_histogram_new(struct qc_channel_histogram **out, int axis, size_t channels, struct qc_status *st);
void qc_channel_histogram_free(struct qc_channel_histogram *h); /* NULL-safe */
size_t qc_channel_histogram_bytes(size_t channels);

/* Adds values, x[channels][n]. */
void qc_channel_histogram_take(struct qc_channel_histogram *h, const float *x, size_t n);
/* Adds a histogram of as many channels (assert); axes may differ. */
void qc_channel_histogram_add(struct qc_channel_histogram *to, const struct qc_channel_histogram *from);

/* Makes `out` the histogram, with counts, of channel c alone. Extremes, counts and zeros are exact. The values of a
   coarse bin are spread evenly over those of its fine bins that the extremes allow; tiny values lie right below the
   window. Fails if memory is out. */
bool qc_channel_histogram_fine(struct qc_histogram *out, const struct qc_channel_histogram *h, size_t c,
                               struct qc_status *st);

/* Adds the counters of h, the histogram of the whole tensor, to `to`, where a value of channel c counts gain[c] *
   QC_CHANNEL_UNIT. `to` has counts; its tally and low bits become those of h and `to` joined, with counts in the same
   units. The coarse bin around a fine bin tells its share of each channel. 0 <= gain[c] <= 1; c NULL: all values count
   gain[0]. Fails if memory is out. */
enum { QC_CHANNEL_UNIT = 1 << 16 };
bool qc_channel_histogram_weigh(struct qc_histogram *to, const struct qc_histogram *h,
                                const struct qc_channel_histogram *c, const double *gain, struct qc_status *st);
