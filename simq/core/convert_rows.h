// SPDX-License-Identifier: Apache-2.0
/* Inside simq/core/: converts rows of accumulators to bytes, RNE(clamp(f(acc * factor))) + zero point, with vector
   instructions. */
#pragma once

#include "arith/real_steps.h"

struct qc_convert_rows {
    bool usable;    /* the result has bytes */
    bool is_signed; /* signed bytes */
    struct qc_rounding rounding;
    const int32_t *zeros; /* [rounding.count] */
    bool uniform;         /* zero point and bounds are the same for all channels */
    int32_t zero, lo, hi; /* valid if `uniform`; lo and hi are levels */
    bool plain;           /* no zero point, and the bounds are those of the byte: saturation is enough */
    bool large;           /* some factor is at least 1: products may exceed int32 */
};

/* Sets `uniform` and the fields that depend on it. */
void qc_convert_rows_of(struct qc_convert_rows *c);

/* Converts rows of n accumulators; element i belongs to channel first + i. Returns false if there is no loop for
   this processor. */
bool qc_convert_rows_run(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                         size_t x_step, size_t rows, size_t n);

#if defined(__x86_64__) && defined(__GNUC__)
/* The same with AVX2. Requires AVX2 and c->uniform. */
void qc_convert_rows_avx2(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step, const int32_t *x,
                          size_t x_step, size_t rows, size_t n);
#endif
