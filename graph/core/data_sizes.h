// SPDX-License-Identifier: Apache-2.0
/* Values whose size depends on data: rows over a threshold, boxes that were kept. */
#pragma once

#include "graph/core/graph.h"

/* Returns [value_count + 1], by id, in arena a: values that may have another size, even none, for inputs of the same
   shapes. Sizes that follow from shapes alone are not among them. Returns NULL and sets a status if memory is out. */
bool *qc_sized_by_data(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
