// SPDX-License-Identifier: Apache-2.0
/* Arrays: growth by doubling, and order. */
#pragma once

#include "base/arena.h"

/* Return the array with room for at least one item more than `count`: the same array if it has room, else a larger
   copy, and set *capacity. Return NULL with QC_MACHINE if memory is out; the old array then stays as it is. */
void *qc_grown(void *items, size_t count, size_t *capacity, size_t size, struct qc_status *st); /* malloc */
void *qc_arena_grown(struct qc_arena *a, void *items, size_t count, size_t *capacity, size_t size,
                     struct qc_status *st); /* new items are 0 */

/* Comparisons for qsort and bsearch: ascending. */
int qc_order_double(const void *a, const void *b);
int qc_order_float(const void *a, const void *b);
int qc_order_size(const void *a, const void *b); /* size_t */
int qc_order_u32(const void *a, const void *b);
int qc_order_u64(const void *a, const void *b);
int qc_order_text(const void *a, const void *b); /* const char *, by bytes */
