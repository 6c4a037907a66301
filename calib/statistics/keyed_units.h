// SPDX-License-Identifier: Apache-2.0
/* Units of a data set by their content: a choice of the first ones does not depend on the order of samples. */
#pragma once

#include "calib/statistics/stream.h"

struct qc_keyed_unit {
    uint64_t key; /* hash of the bytes of the first `inputs` inputs (qc_stream_key) */
    size_t unit;
};

/* Makes all units in order of their keys, equal keys in order of units. keys: NULL, or [units]: those that are not 0
   are not computed again. The array is in the arena. */
bool qc_keyed_units(struct qc_keyed_unit **out, const struct qc_dataset *data, size_t inputs, const uint64_t *keys,
                    unsigned workers, struct qc_arena *a, struct qc_status *st);
