// SPDX-License-Identifier: Apache-2.0
/* Accumulators that a sum may overflow. A sum starts from the bias, then adds the products (qa - za)(qw - zw) one by
   one. A convolution goes through the kernel positions in row-major order, with the channels of the group inside. A
   matrix product goes through the columns in ascending order.
   A value that does not fit (the bias, or the sum after an addition) wraps modulo 2^bits or saturates.
   QC_OVERFLOW_LAST: the sum is exact (as in a 64-bit accumulator) and only its result saturates. With 32 bits the
   largest result is 2^31 - 128, the largest int32 value that float32 holds. This is the default with 32 bits, so
   that sums of 16-bit activations never wrap silently. */
#pragma once

#include <stddef.h>
#include <stdint.h>

/* WATCH: sums use 32 bits; overflows of the narrower range are only counted. LAST: see above. */
enum qc_overflow { QC_OVERFLOW_WRAP, QC_OVERFLOW_SATURATE, QC_OVERFLOW_WATCH, QC_OVERFLOW_LAST };

struct qc_accumulator {
    unsigned bits; /* 2 to 32; 0 means 32 with QC_OVERFLOW_LAST */
    enum qc_overflow overflow;
};

/* Statistics of the sums of one layer. They cover the bias and the value after each addition, as unbounded integers. */
struct qc_sums {
    size_t channels;             /* of the result */
    uint64_t results, overflows; /* all results; results with a sum that left the range */
    int64_t *lowest, *highest;   /* [channels] extremes over all results; both start at 0 */
};
