// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: numbers from one representation to another, with the rounding of simq/core/rounding.h.

   A value is held in float32 (real, or centred: q - zero point) or as stored integers q. Stored integers of qparams and
   its centred numbers are the same thing; accumulators are int32 with zero point 0. */
#pragma once

#include "arith/requantize.h"
#include "arith/table.h"
#include "simq/core/convert_rows.h"
#include "simq/core/rounding.h"

struct qc_convert {
    struct qc_rounding rounding; /* between centred numbers */
    enum qc_dtype from, to;
    int axis;                           /* of the channels, when rounding.count > 1 */
    const int32_t *from_zero, *to_zero; /* [rounding.count]; zeros for float32 */
    bool fixed;                         /* integers to integers by a contract in fixed point */
    struct qc_requantize_loop loop;
    struct qc_convert_rows rows; /* where accumulators become bytes by `rounding` */
    const uint8_t *table; /* [256] elements of `to` by the byte of `from`: 8-bit types of one channel, else NULL */
};

/* By which contract, and what it needs to know beyond the scales. */
struct qc_convert_how {
    enum qc_contract contract;
    const struct qc_graph *graph;      /* whose qparams the scales are of */
    enum qc_requantize_source product; /* what accumulators are: QC_FROM_PRODUCT, QC_FROM_DENSE */
    int64_t divisor; /* not 0: a sum of so many integers of qparams `from`, less their zero points, becomes a mean */
};

/* What is converted, or what it becomes. */
struct qc_convert_end {
    enum qc_dtype type;
    const struct qc_scales *scales;
};

/* how may be NULL: contract "onnx". lo and hi clamp the result in its centred units (-INFINITY and INFINITY: not at
   all). Arrays are made in `a`. Errors: element types that are not handled; channels that do not fit. */
bool qc_convert_of(struct qc_convert *out, struct qc_convert_end of, struct qc_convert_end as, float lo, float hi,
                   const struct qc_convert_how *how, struct qc_arena *a, struct qc_status *st);

/* n elements side by side. With channels, element i belongs to channel first + i. In place is fine where the elements
 * are of one size. */
void qc_convert_run(const struct qc_convert *c, size_t first, void *y, const void *x, size_t n);

/* Rows of n accumulators each, element i of channel first + i; steps in elements. `from` is i32. */
void qc_convert_rows(const struct qc_convert *c, size_t first, void *y, ptrdiff_t y_step, const int32_t *x,
                     size_t x_step, size_t rows, size_t n);

/* Views of equal dims and any strides. */
void qc_convert_view(const struct qc_convert *c, const struct qc_view *y, const struct qc_view *x);

/* n elements as float32 less `zero`, and back with it. Types up to 32 bits. */
void qc_load_centred(float *y, enum qc_dtype t, const void *x, size_t n, const int32_t *zero, bool channels);
void qc_store_centred(enum qc_dtype t, void *y, const float *x, size_t n, const int32_t *zero, bool channels);

/* n stored integers as int32, and back. */
void qc_load_levels(int32_t *y, enum qc_dtype t, const void *x, size_t n);
void qc_store_levels(enum qc_dtype t, void *y, const int32_t *x, size_t n);

/* Types that stored integers may have here. */
static inline bool qc_is_level_type(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8 || t == QC_U16 || t == QC_I16 || t == QC_I32 || t == QC_U4 || t == QC_I4;
}
