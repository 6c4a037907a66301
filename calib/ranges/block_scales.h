// SPDX-License-Identifier: Apache-2.0
/* Scales of weights in blocks. A block is a few numbers only, so that a histogram says little of it: the range is tried
   on the numbers themselves. */
#pragma once

#include "graph/core/scale_layout.h"
#include "observers/observer.h"

struct qc_block_search {
    const struct qc_tensor *tensor; /* float32 */
    struct qc_scale_layout layout;  /* in blocks */
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    enum qc_scale_kind scale; /* scales other than all float32: of those beside what is found, the best */
    const double *importance; /* [layout.size]: how much an error there counts; NULL: all alike */
    /* NULL: the range of least sum of importance (x - its quantized form)^2; else as this observer has it. */
    const struct qc_observer *observer;
    const struct qc_observer_values *values;
    unsigned workers;
};

/* scale, zero_point: [layout.count]; a block of zeros gets the scale 0. widest: lo and hi of the widest block. The
   result does not depend on the number of workers. */
bool qc_block_scales(float *scale, int32_t *zero_point, struct qc_range *widest, const struct qc_block_search *search,
                     struct qc_status *st);
