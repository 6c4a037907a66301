// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/entry_sizes.h"

#include "base/checked.h"

bool qc_entry_sizes(int64_t *dims, size_t *most, bool *same, const int64_t *sizes, size_t count, unsigned rank)
{
    *most = 0;
    *same = true;
    for (unsigned d = 0; d < rank; d++) dims[d] = count ? sizes[d] : 0;
    for (size_t i = 0; i < count; i++) {
        size_t elements = 1;
        for (unsigned d = 0; d < rank; d++) {
            const int64_t n = sizes[i * rank + d];
            if (n < 0 || !qc_mul_size(&elements, elements, (size_t)n)) return false;
            if (dims[d] == n) continue;
            dims[d] = -1;
            *same = false;
        }
        if (elements > *most) *most = elements;
    }
    return true;
}
