// SPDX-License-Identifier: Apache-2.0
/* Accumulators that a sum may leave. A sum starts from the bias, then takes the products (qa - za)(qw - zw) one by one:
   positions of the kernel in row-major order, channels of the group inside; columns of a matrix in ascending order.
   What does not fit after an addition (or as a bias) wraps modulo 2^bits, or stays at the end of the range.
   QC_OVERFLOW_LAST: the sum itself is exact (as in an accumulator of 64 bits) and only its result stays inside the
   range (of 32 bits: up to 2^31 - 128, the largest that float32 holds); with 32 bits that is what holds when nothing
   else is said, so that sums of 16-bit activations never wrap in silence. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* WATCH: sums are those of 32 bits; what would leave the range of fewer bits is only counted. LAST: see above. */
enum qc_overflow { QC_OVERFLOW_WRAP, QC_OVERFLOW_SATURATE, QC_OVERFLOW_WATCH, QC_OVERFLOW_LAST };

struct qc_accumulator {
    unsigned bits; /* 2 to 32; 0 means 32 with QC_OVERFLOW_LAST */
    enum qc_overflow overflow;
};

/* What was seen of the sums of one layer. A sum is the bias and what it is after each addition, as integers without
 * bounds. */
struct qc_sums {
    size_t channels;             /* of the result */
    uint64_t results, overflows; /* all; those with a sum that left the range */
    int64_t *lowest, *highest;   /* [channels] over all results; 0 at least where nothing was seen yet */
};
