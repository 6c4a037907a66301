// SPDX-License-Identifier: Apache-2.0
/* Factors of channels between a value of two graphs. Equalized and scaled networks have values whose channels are those
   of the original times a constant: element by element such a layer cannot be compared. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "simq/core/view.h"

/* Sums over the elements of each channel: r^2, r x, x^2. */
struct qc_channel_sums {
    size_t channels, elements; /* elements: of each channel */
    double (*of)[3];           /* [channels]; from malloc */
};

struct qc_channel_factors {
    bool found;
    double least, most; /* x is about r times these */
};

/* Makes the sums of one sample. x: elements in the memory order of r, which is dense, times `step`. The channels are
   axis 1 of values of rank 4 and more, and the last axis of others. Values of rank 1 have no sums. False without
   memory.
 */
bool qc_channel_sums_of(struct qc_channel_sums *out, const struct qc_view *r, const float *x, double step);
/* Adds sums of the same number of channels; *to may be empty. Takes the sums of `s`. */
void qc_channel_sums_add(struct qc_channel_sums *to, struct qc_channel_sums *s);
/* Finds the factors: found if they take away nine tenths of the noise, and one is above 1.2 or below 1/1.2. A channel
   needs 16 elements. */
struct qc_channel_factors qc_channel_factors_of(const struct qc_channel_sums *s);
