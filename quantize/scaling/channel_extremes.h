// SPDX-License-Identifier: Apache-2.0
/* The least and the largest element of each channel of some values in the float network, for each of a few units. The
   range always includes zero. */
#pragma once

#include "datasets/samples/dataset.h"
#include "graph/core/graph.h"

enum { QC_EXTREMES_UNITS = 16 }; /* units that run, spread evenly over the data set */

struct qc_channel_extremes {
    qc_id value;
    int axis;
    size_t channels, units;
    float *lo, *hi; /* [units][channels] */
};

/* Fills of[count], whose value, axis and channels are given; memory from the arena. NaN is ignored. The result does not
   depend on the number of workers. Fails if a value has another number of channels than the model declares, or if a run
   fails. */
bool qc_channel_extremes_take(struct qc_channel_extremes *of, size_t count, const struct qc_graph *g,
                              const struct qc_dataset *data, unsigned workers, struct qc_arena *a,
                              struct qc_status *st);
