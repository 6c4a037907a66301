// SPDX-License-Identifier: Apache-2.0
/* Arrays that grow by doubling. */
#pragma once

#include "base/arena.h"

/* Return the array with room for at least one item more than `count`: the same array if it has room, else a larger
   copy, and set *capacity. Return NULL with QC_MACHINE if memory is out; the old array then stays as it is. */
void *qc_grown(void *items, size_t count, size_t *capacity, size_t size, struct qc_status *st); /* malloc */
void *qc_arena_grown(struct qc_arena *a, void *items, size_t count, size_t *capacity, size_t size,
                     struct qc_status *st); /* new items are 0 */
