// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the requantizers and mergers of graph/numerics.h over arrays, with the same bits, for every contract. */
#ifndef QC_SIMQ_ROUNDING_FIXED_H
#define QC_SIMQ_ROUNDING_FIXED_H

#include "graph/numerics.h"

struct qc_requantize_loop {
    enum qc_requantize_rule rule;
    bool divides, copies;
    size_t count; /* of the arrays: 1, or the channels */
    const float *factor;
    float divisor;
    const int32_t *multiplier, *left, *right; /* x << left, high half of the product, >> right (DOUBLE) */
    const int32_t *limit;           /* |x| beyond which the result saturates whatever the rest (once-rounding rules) */
    const uint64_t *bias;           /* 2^62 + 2^(shift - 1), so that the sum is never negative (once-rounding rules) */
    const uint64_t *shift, *offset; /* >> shift, less offset = 2^62 >> shift */
    int32_t input_zero_point, zero_point;
    struct qc_levels levels;
};

/* Arrays are made in `a`; those of r are borrowed. Levels have at most 16 bits: QC_UNSUPPORTED for others under a fixed-point contract. */
bool qc_requantize_loop_of(struct qc_requantize_loop *out, const struct qc_requantizer *r, struct qc_arena *a,
                           struct qc_status *st);

/* y[i] = qc_requantize_one(r, first + i, x[i]) for n numbers (with one channel, `first` does not matter). With channels, first + n is at
   most their count. x less the input's zero point fits an int32. In place is fine. */
void qc_requantize_run(const struct qc_requantize_loop *r, size_t first, int32_t *y, const int32_t *x, size_t n);

/* y[i] = qc_merge_one(m, a[i], b[i]); the levels of the operands have at most 16 bits. In place is fine. */
void qc_merge_run(const struct qc_merger *m, int32_t *y, const int32_t *a, const int32_t *b, size_t n);

#endif
