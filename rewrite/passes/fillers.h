// SPDX-License-Identifier: Apache-2.0
/* Constants that mean "nothing": the fill value of a Pad before a max pool, a mask, a tensor that rows are scattered
   into. They are often the lowest float, and one range for them and for what is computed has no precision.

   A quantizer is monotone, so the maximum of rounded values is the rounded maximum. Hence a value that only maxima and
   minima read needs the range of their results, and a constant that they never choose saturates. */
#pragma once

#include "graph/core/graph.h"

/* Returns true for maxima and minima of elements: pools, reductions, and of two values. */
bool qc_is_extreme(enum qc_op op);

/* Returns true for a Pad of another constant than 0. */
bool qc_pads_with_value(const struct qc_graph *g, const struct qc_node *n);

/* Returns true if the node adds numbers that are too large for the scale of a sum: a mask. */
bool qc_adds_vast_mask(const struct qc_graph *g, const struct qc_node *n);

/* Returns [value_count + 1], by id, in arena a: values that hold such a constant and that only maxima and minima read,
   directly or through ops that move elements. class_of: NULL, or [value_count + 1]: moves to another class count as
   other readers. Returns NULL and sets a status if memory is out. */
bool *qc_read_by_extremes(const struct qc_graph *g, const qc_id *class_of, struct qc_arena *a, struct qc_status *st);
