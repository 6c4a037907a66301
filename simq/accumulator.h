// SPDX-License-Identifier: Apache-2.0
/* Accumulators of fewer bits than 32. A sum starts from the bias, then takes the products (qa - za)(qw - zw) one by one: positions
   of the kernel in row-major order, channels of the group inside; columns of a matrix in ascending order. What does not fit
   after an addition (or as a bias) wraps modulo 2^bits, or stays at the end of the range. */
#ifndef QC_SIMQ_ACCUMULATOR_H
#define QC_SIMQ_ACCUMULATOR_H

enum qc_overflow { QC_OVERFLOW_WRAP, QC_OVERFLOW_SATURATE };

struct qc_accumulator {
    unsigned bits; /* 2 to 32; 0 means 32 */
    enum qc_overflow overflow;
};

#endif
