// SPDX-License-Identifier: Apache-2.0
/* Inside simq/core/: rows of accumulators that become bytes, RNE(clamp(f(acc * factor))) + zero point, with vector
   instructions. */
#pragma once

#include "arith/real_steps.h"

struct qc_convert_rows {
    bool usable;    /* to bytes */
    bool is_signed; /* they are */
    struct qc_rounding rounding;
    const int32_t *zeros; /* [rounding.count] */
    bool uniform;         /* zero point and bounds are the same for all channels */
    int32_t zero, lo, hi; /* then: the bounds as levels */
    bool large;           /* factors of 1 and more: products may leave an int32 */
};

/* Sets `uniform` and what belongs to it. */
void qc_convert_rows_of(struct qc_convert_rows *c);

/* Rows of n accumulators, element i of channel first + i; false where there is no loop for it. */
bool qc_convert_rows_run(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                         size_t x_step, size_t rows, size_t n);

#if defined(__x86_64__) && defined(__GNUC__)
/* The same with AVX2, where the processor has it. c->uniform. */
void qc_convert_rows_avx2(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                          size_t x_step, size_t rows, size_t n);
#endif
