// SPDX-License-Identifier: Apache-2.0
#include "datasets/samples/stored_samples.h"

#include <stdint.h>

#include "base/checked.h"

/* FREE: bytes of samples that nobody needs to have stored, such as an input that is 0 in all of them. LEAST: a sample
   counts as so many bytes. PACKED: deflate makes at most 1032 bytes of one. */
enum { FREE_BYTES = 64 << 20, LEAST_BYTES = 64, PACKED = 1100 };

bool qc_check_stored(size_t samples, size_t sample_bytes, size_t stored, const char *remedy, struct qc_status *st)
{
    size_t wanted, most;
    if (sample_bytes < LEAST_BYTES) sample_bytes = LEAST_BYTES;
    if (!qc_mul_size(&most, stored, PACKED) || !qc_add_size(&most, most, FREE_BYTES)) return true;
    return (qc_mul_size(&wanted, samples, sample_bytes) && wanted <= most) ||
           qc_fail(st, QC_BAD_INPUT,
                   "it says that it has %zu samples, and stores %zu bytes of values; store the values%s", samples,
                   stored, remedy);
}
