// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/dataset.h"

#include <stdint.h>

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

/* FREE_BYTES: samples may have these bytes without storage, such as an input that is all 0. LEAST_BYTES: the least that
   a sample counts. PACKED: deflate produces at most 1032 bytes from one. */
enum { FREE_BYTES = 64 << 20, LEAST_BYTES = 64, PACKED = 1100 };

bool qc_check_stored(size_t samples, size_t sample_bytes, size_t stored, const char *remedy, struct qc_status *st)
{
    size_t wanted, most;
    if (sample_bytes < LEAST_BYTES) sample_bytes = LEAST_BYTES;
    if (!qc_mul_size(&most, stored, PACKED) || !qc_add_size(&most, most, FREE_BYTES)) return true;
    return (qc_mul_size(&wanted, samples, sample_bytes) && wanted <= most) ||
           qc_fail(st, QC_BAD_INPUT, "it claims %zu samples but stores %zu bytes of values; store the values%s",
                   samples, stored, remedy);
}
