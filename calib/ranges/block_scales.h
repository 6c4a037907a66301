// SPDX-License-Identifier: Apache-2.0
/* Scales of weights in blocks. A block has too few numbers for a useful histogram, so ranges are tried on the numbers
   themselves. */
#pragma once

#include "graph/core/parameters.h"
#include "graph/types/number_format.h"
#include "observers/observer.h"

struct qc_block_search {
    const struct qc_tensor *tensor; /* float32 */
    struct qc_scale_layout layout;  /* in blocks */
    struct qc_levels levels;
    enum qc_symmetry symmetry;
    enum qc_scale_kind scale; /* unless float32: the best of the representable scales near the one found */
    const double *importance; /* [groups][layout.size]: weight of an error at each index; NULL: all equal */
    size_t groups;            /* of equal numbers of rows, the directions of a recurrent operator */
    /* NULL: least sum of importance (x - its quantized form)^2; else the range that this observer chooses. */
    const struct qc_observer *observer;
    const struct qc_observer_values *values;
    size_t judged; /* as in struct qc_calibration_options; the layout then has one output for each element after the
                      axis or for each row */
    unsigned workers;
};

/* Computes scale and zero_point, both [layout.count]; a block of zeros gets the scale 0. Extends widest->lo and
   widest->hi to the widest block. The result does not depend on the number of workers. Fails if memory is out or the
   observer fails. */
bool qc_block_scales(float *scale, int32_t *zero_point, struct qc_range *widest, const struct qc_block_search *search,
                     struct qc_status *st);
