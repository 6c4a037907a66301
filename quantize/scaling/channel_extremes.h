// SPDX-License-Identifier: Apache-2.0
/* The least and the largest value of each channel of some values, sample by sample: of a few samples, in the float
   network. Zero is always between them. */
#pragma once

#include "datasets/samples/dataset.h"
#include "graph/core/graph.h"

enum { QC_EXTREMES_UNITS = 16 }; /* of the data set, spread evenly */

struct qc_channel_extremes {
    qc_id value;
    int axis;
    size_t channels, units;
    float *lo, *hi; /* [units][channels] */
};

/* of: [count] with value, axis and channels; the rest is filled, in the arena. NaN is passed over. The result does not
   depend on the number of workers. */
bool qc_channel_extremes_take(struct qc_channel_extremes *of, size_t count, const struct qc_graph *g,
                              const struct qc_dataset *data, unsigned workers, struct qc_arena *a,
                              struct qc_status *st);
