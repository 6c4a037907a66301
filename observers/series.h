// SPDX-License-Identifier: Apache-2.0
/* The extremes of every sample, in the order of sample numbers: what ema and avgmax solve from. A sample is one run of
   the model: of a model with a fixed batch, one batch. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qc_extremes {
    uint64_t sample;
    float min, max; /* of the finite values; -0 reads as 0. min > max: there were none, and the observers pass over the
                       sample */
};

/* By ascending sample number. A quantizer that takes several values has the extremes of all of them in one entry. */
struct qc_series {
    size_t count;
    const struct qc_extremes *items;
};

/* Extremes of n values; NaN and infinities are passed over. */
struct qc_extremes qc_extremes_of(const float *x, size_t n, uint64_t sample);

/* Of both together (the sample number is a's). */
struct qc_extremes qc_extremes_join(struct qc_extremes a, struct qc_extremes b);
