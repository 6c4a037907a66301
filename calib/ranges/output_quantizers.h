// SPDX-License-Identifier: Apache-2.0
/* Histograms of quantizers in which values count by what their errors do to the layers behind (--method output): the
   least mean squared error of such a histogram is the least error of those layers' outputs, as far as errors of
   elements are independent. */
#pragma once

#include "calib/ranges/channel_gain.h"
#include "calib/statistics/collection.h"

/* One value of a quantizer. */
struct qc_quantizer_part {
    const struct qc_histogram *histogram;        /* with counts */
    const struct qc_channel_histogram *channels; /* NULL: not known */
    const struct qc_channel_gain *gain;          /* NULL: not known */
};

/* *out, owned: the histograms of the parts together, each value weighted by the gain of its channel, where the largest
   gain of all parts counts QC_CHANNEL_UNIT. Parts without gains, or with other channels than these, count by the mean
   of the others. NULL when no part has gains: then all values are equal. Errors: memory. */
bool qc_output_quantizer(struct qc_histogram **out, const struct qc_quantizer_part *parts, size_t count,
                         struct qc_status *st);
