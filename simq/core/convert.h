// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: converts numbers between representations, with the rounding of simq/core/convert.h.

   A value is held in float32 (real, or centred: q - zero point) or as stored integers q. Stored integers and centred
   numbers of the same qparams represent the same values. Accumulators are int32 with zero point 0. */
#pragma once

#include "arith/real_steps.h"
#include "arith/requantize.h"
#include "base/arena.h"
#include "simq/core/kernel.h"

/* Inside simq/core/: converts rows of accumulators to bytes, RNE(clamp(f(acc * factor))) + zero point, with vector
   instructions. */

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

/* Compile-time variant of a loop. */
struct qc_convert_form {
    int vectors; /* per row, 1 to 4 */
    bool whole;  /* all vectors are full */
    bool is_signed, large, plain;
};

/* Defines a function `name` with these parameters for c->uniform. It calls the variant of the inline function
   `of` that c needs. */
#define QC_CONVERT_FORM(name, target, of, s, l, p)                                                                     \
    target static void name(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step,               \
                            const int32_t *x, size_t x_step, size_t rows, size_t n)                                    \
    {                                                                                                                  \
        of(c, first, y, y_step, x, x_step, rows, n,                                                                    \
           (struct qc_convert_form){.is_signed = (s), .large = (l), .plain = (p)});                                    \
    }
#define QC_CONVERT_FORMS(scope, name, target, of)                                                                      \
    QC_CONVERT_FORM(name##_u8, target, of, false, false, false)                                                        \
    QC_CONVERT_FORM(name##_i8, target, of, true, false, false)                                                         \
    QC_CONVERT_FORM(name##_u8_large, target, of, false, true, false)                                                   \
    QC_CONVERT_FORM(name##_i8_large, target, of, true, true, false)                                                    \
    QC_CONVERT_FORM(name##_u8_plain, target, of, false, false, true)                                                   \
    QC_CONVERT_FORM(name##_i8_plain, target, of, true, false, true)                                                    \
    scope void name(const struct qc_convert_rows *c, size_t first, uint8_t *y, ptrdiff_t y_step, const int32_t *x,     \
                    size_t x_step, size_t rows, size_t n)                                                              \
    {                                                                                                                  \
        (c->plain       ? c->is_signed ? name##_i8_plain : name##_u8_plain                                             \
         : c->large     ? c->is_signed ? name##_i8_large : name##_u8_large                                             \
         : c->is_signed ? name##_i8                                                                                    \
                        : name##_u8)(c, first, y, y_step, x, x_step, rows, n);                                         \
    }
#endif

/* Inside simq/: the roundings of arith/real_steps.h between the scales of values, also over views. */

/* Prepares the rounding from the scales `from` to the scales `to` (identity: real). lo and hi clamp the result in
   its own units (-INFINITY and INFINITY: no clamp). NaN stays NaN if the result is not integers. Arrays are
   allocated in `a`. */
bool qc_rounding_of(struct qc_rounding *out, const struct qc_scales *from, const struct qc_scales *to, float lo,
                    float hi, struct qc_arena *a, struct qc_status *st);

/* qc_rounding_run for views of equal dims and any strides. In place only if both views are the same; channels run
   along `axis`. */
void qc_rounding_view(const struct qc_rounding *r, int axis, const struct qc_view *y, const struct qc_view *x);

/* Whether an element takes a byte at most: the types with a table of all their values. */
static inline bool qc_dtype_in_byte(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8 || t == QC_U4 || t == QC_I4;
}

struct qc_convert {
    struct qc_rounding rounding; /* between centred numbers */
    enum qc_dtype from, to;
    int axis;                           /* channel axis, used if rounding.count > 1 */
    const int32_t *from_zero, *to_zero; /* [rounding.count]; zeros for float32 */
    bool fixed;                         /* integers to integers, under a fixed-point contract */
    struct qc_requantize_loop loop;
    struct qc_convert_rows rows; /* used if accumulators are converted to bytes by `rounding` */
    const uint8_t *table; /* [256] elements of `to` by the byte of `from`: 8-bit types with one channel, else NULL */
};

/* The rounding contract and what it needs beyond the scales. */
struct qc_convert_how {
    enum qc_contract contract;
    const struct qc_graph *graph;      /* owner of the qparams of the scales */
    enum qc_requantize_source product; /* kind of accumulator: QC_FROM_PRODUCT or QC_FROM_DENSE */
    int64_t divisor; /* not 0: converts a sum of `divisor` integers of qparams `from`, less their zero points, to their
                        mean */
};

/* Source or result of a conversion. */
struct qc_convert_end {
    enum qc_dtype type;
    const struct qc_scales *scales;
};

/* Prepares a conversion. `how` may be NULL: contract "onnx". lo and hi clamp the result in its centred units
   (-INFINITY and INFINITY: no clamp). Arrays are allocated in `a`. Fails if an element type is not supported or the
   channel counts differ. */
bool qc_convert_of(struct qc_convert *out, struct qc_convert_end of, struct qc_convert_end as, float lo, float hi,
                   const struct qc_convert_how *how, struct qc_arena *a, struct qc_status *st);

/* Converts n contiguous elements. With channels, element i belongs to channel first + i. In-place conversion is
   allowed if both element sizes are equal. */
void qc_convert_run(const struct qc_convert *c, size_t first, void *y, const void *x, size_t n);

/* Converts rows of n accumulators each. Element i belongs to channel first + i; steps are in elements. `from` must
   be i32. */
void qc_convert_rows(const struct qc_convert *c, size_t first, void *y, ptrdiff_t y_step, const int32_t *x,
                     size_t x_step, size_t rows, size_t n);

/* Converts views of equal dims and any strides. */
void qc_convert_view(const struct qc_convert *c, const struct qc_view *y, const struct qc_view *x);

/* Load n elements as float32, less `zero`; store them, plus `zero`. Types of up to 32 bits. */
void qc_load_centred(float *y, enum qc_dtype t, const void *x, size_t n, const int32_t *zero, bool channels);
void qc_store_centred(enum qc_dtype t, void *y, const float *x, size_t n, const int32_t *zero, bool channels);

/* Load n stored integers as int32; store them back. */
void qc_load_levels(int32_t *y, enum qc_dtype t, const void *x, size_t n);
void qc_store_levels(enum qc_dtype t, void *y, const int32_t *x, size_t n);

/* Returns whether stored integers may have this type. */
static inline bool qc_is_level_type(enum qc_dtype t)
{
    return t == QC_U8 || t == QC_I8 || t == QC_U16 || t == QC_I16 || t == QC_I32 || t == QC_U4 || t == QC_I4;
}
