// SPDX-License-Identifier: Apache-2.0
/* Inside calib/statistics: the order of samples of different sizes, and the largest ones. */
#pragma once

#include "datasets/samples/dataset.h"

/* Sorts 0 to count - 1 by the sizes of those units (units NULL: units 0, 1, ...): most elements first, equal shapes
   together, ties in the given order. QC_ORDER_KEPT sorts blocks of QC_ORDER_UNITS units, or of QC_ORDER_BYTES of
   inputs, separately. *order is owned by the caller (free). Fails if memory is out. */
enum qc_order { QC_ORDER_FREE, QC_ORDER_KEPT };
enum { QC_ORDER_UNITS = 1024, QC_ORDER_BYTES = 4 << 20 };
bool qc_order_by_size(size_t **order, const struct qc_dataset *data, size_t inputs, const size_t *units, size_t count,
                      enum qc_order how, struct qc_status *st);

/* Returns units that have the most elements or the largest size of some free dimension: the unit that needs most memory
   is among them. In the arena, *count of them; NULL if memory is out. */
size_t *qc_largest_units(size_t *count, const struct qc_dataset *data, size_t inputs, struct qc_arena *a,
                         struct qc_status *st);
