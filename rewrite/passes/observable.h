// SPDX-License-Identifier: Apache-2.0
/* Values that may be observed when a graph is quantized, whatever the options. */
#pragma once

#include "rewrite/passes/partition.h"

/* Finds every float32 value of a canonical graph (qc_normalise) that has a name and is no constant. Excluded are values
   that others of their class (rewrite/passes/partition.h) cover with any --only and --skip: results of an op of the
   allow-list that copies and that no pattern names, and inputs that only a clamp reads. Ascending ids, array from the
   arena. */
bool qc_observable_values(size_t *count, qc_id **values, const struct qc_graph *g, const struct qc_rules *rules,
                          struct qc_arena *a, struct qc_status *st);
