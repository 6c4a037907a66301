// SPDX-License-Identifier: Apache-2.0
/* The extremes of every sample, by sample number, for ema and avgmax. A sample is one run of the model: with a fixed
   batch, one batch. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct qc_extremes {
    uint64_t sample;
    float min, max; /* of the finite values; -0 reads as 0. min > max: there are none, and observers skip the sample */
};

/* Ordered by sample number. A quantizer with several values has their joint extremes in one entry. */
struct qc_series {
    size_t count;
    const struct qc_extremes *items;
};

/* Returns the extremes of n values; NaN and infinities are skipped. */
struct qc_extremes qc_extremes_of(const float *x, size_t n, uint64_t sample);

/* Returns the extremes of both; the sample number is a's. */
struct qc_extremes qc_extremes_join(struct qc_extremes a, struct qc_extremes b);
