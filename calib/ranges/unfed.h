// SPDX-License-Identifier: Apache-2.0
/* Quantizers that no sample reaches: rows over a threshold that the calibration data never exceed. Their ranges are
   unknown, so the ops that read them stay in float. */
#pragma once

#include "calib/statistics/collection.h"

/* Appends the values that quantizers of the simulated graph g round without observing them and whose size depends on
   data, each once. The arrays have room for all values of g. */
bool qc_add_sized_values(size_t *count, qc_id *values, const char **names, const struct qc_graph *g, struct qc_arena *a,
                         struct qc_status *st);

/* Finds values that quantizers of the simulated graph g round and that have no element in any sample. Makes *names,
   known names and theirs; *more: number of the latter. */
bool qc_unfed_values(size_t *more, const char ***names, size_t known_count, const char *const *known,
                     const struct qc_graph *g, const struct qc_collection *seen, struct qc_arena *a,
                     struct qc_status *st);
