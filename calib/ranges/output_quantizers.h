// SPDX-License-Identifier: Apache-2.0
/* Histograms of quantizers whose values are weighted by the effect of their errors on the layers after (--method
   output). A range that minimizes the squared error of such a histogram minimizes the error of those layers' outputs,
   if errors of elements are independent. */
#pragma once

#include "calib/ranges/channel_gain.h"
#include "calib/statistics/collection.h"

/* One value of a quantizer. */
struct qc_quantizer_part {
    const struct qc_histogram *histogram;        /* with counts */
    const struct qc_channel_histogram *channels; /* NULL: unknown */
    const struct qc_channel_gain *gain;          /* NULL: unknown */
};

/* Merges the histograms of the parts into *out, owned by the caller. Each value is weighted by the gain of its channel;
   the largest gain of all parts counts QC_CHANNEL_UNIT. A part without gains, or whose gains have other channels,
   counts with the mean gain. *out is NULL if no part has gains: then all values count equally. Fails if memory is out.
 */
bool qc_output_quantizer(struct qc_histogram **out, const struct qc_quantizer_part *parts, size_t count,
                         struct qc_status *st);
