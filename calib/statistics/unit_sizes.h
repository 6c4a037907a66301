// SPDX-License-Identifier: Apache-2.0
/* Samples of different sizes: in which order they run, and which are the largest. Inside calib/statistics. */
#pragma once

#include "datasets/samples/dataset.h"

/* 0 to count - 1 by the sizes of those units (units NULL: of unit 0, 1, ...): the most elements first, units of one
   shape beside each other, among them as they come. Of each QC_ORDER_UNITS, or QC_ORDER_BYTES of inputs, by themselves
   where the order shall be kept by and large. Owned (free). */
enum qc_order { QC_ORDER_FREE, QC_ORDER_KEPT };
enum { QC_ORDER_UNITS = 1024, QC_ORDER_BYTES = 4 << 20 };
bool qc_order_by_size(size_t **order, const struct qc_dataset *data, size_t inputs, const size_t *units, size_t count,
                      enum qc_order how, struct qc_status *st);

/* Units that no other is larger than in the sum of elements, or in one dim: what takes most memory is among them. In
   the arena, *count of them. */
size_t *qc_largest_units(size_t *count, const struct qc_dataset *data, size_t inputs, struct qc_arena *a,
                         struct qc_status *st);
