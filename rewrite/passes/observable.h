// SPDX-License-Identifier: Apache-2.0
/* Values that may be observed when a graph is quantized, whatever the options. */
#pragma once

#include "rewrite/passes/partition.h"

/* Of a canonical graph (qc_normalise): every float32 value that has a name and is no constant, but those that can only
   be covered by others of their class (rewrite/passes/partition.h) with any --only and --skip: what an op of the
   allow-list that no pattern names copies, and what a clamp reads alone. Ascending ids, array from the arena. */
bool qc_observable_values(size_t *count, qc_id **values, const struct qc_graph *g, const struct qc_rules *rules,
                          struct qc_arena *a, struct qc_status *st);
