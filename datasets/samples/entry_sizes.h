// SPDX-License-Identifier: Apache-2.0
/* Shapes of samples that differ from one to the next; private to datasets/. */
#ifndef QC_DATASETS_SAMPLES_ENTRY_SIZES_H
#define QC_DATASETS_SAMPLES_ENTRY_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* sizes[count][rank]. dims[rank]: what is the same for all entries, -1 where it differs; *most: elements of the
 *largest; same: all dims are. False: a dim below 0, or a shape larger than any memory. */
bool qc_entry_sizes(int64_t *dims, size_t *most, bool *same, const int64_t *sizes, size_t count, unsigned rank);

/* Elements of one entry, which qc_entry_sizes has seen. */
static inline size_t qc_entry_elements(const int64_t *dims, unsigned rank)
{
    size_t n = 1;
    for (unsigned i = 0; i < rank; i++) n *= (size_t)dims[i];
    return n;
}

#endif
