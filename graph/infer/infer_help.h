// SPDX-License-Identifier: Apache-2.0
/* Helpers of the type rules (graph/infer/infer_*.c). */
#pragma once

#include "graph/core/infer.h"

/* Sets the type of an output. Fails if the elements do not fit in memory, even if every free dimension is 1. */
bool qc_infer_set(struct qc_infer *c, unsigned output, enum qc_dtype dtype, const struct qc_shape *shape,
                  struct qc_status *st);

/* A list of integers given as an input (axes, pads, a shape): i64 or i32, of rank 0 or 1. */
enum { QC_LIST_MAX = 64 };
struct qc_list {
    bool known;    /* the input is a constant: value[] is valid */
    int64_t count; /* QC_FREE if not even the length is known */
    int64_t value[QC_LIST_MAX];
};
/* Reads input i, which must be present. Fails, naming `what`, if type or rank is wrong or there are more than
   QC_LIST_MAX values. */
bool qc_infer_list(struct qc_list *out, const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);

/* Converts axes in [-rank, rank) to one flag per axis. Fails if an axis is out of range or given twice. */
bool qc_infer_axes(bool has[QC_RANK_MAX], size_t count, const int64_t *axes, int rank, struct qc_status *st);

/* Gives the dimension that equals both a and b. Returns false if both are fixed and differ. */
static inline bool qc_dim_meet(int64_t *out, int64_t a, int64_t b)
{
    if (a != QC_FREE && b != QC_FREE && a != b) return false;
    *out = a == QC_FREE ? b : a;
    return true;
}

/* Gives a * b, free if either is free. Returns false on overflow. */
bool qc_dim_times(int64_t *out, int64_t a, int64_t b);

/* Gives an unknown shape if rank < 0, else a shape of `rank` free dimensions. Fails with QC_UNSUPPORTED above
   QC_RANK_MAX. */
bool qc_shape_free(struct qc_shape *out, int64_t rank, struct qc_status *st);

/* Returns true if an input is affine. Then storage types are not checked, and the caller of the rule sets that of the
   result. */
bool qc_infer_affine(const struct qc_infer *c);

/* Fails unless the inputs first .. first+count-1 that are present have the dtype of input `first`, or one is affine. */
bool qc_infer_same_dtype(const struct qc_infer *c, unsigned first, unsigned count, struct qc_status *st);
/* The same, and also fails if it is not a floating-point type. */
bool qc_infer_same_float(const struct qc_infer *c, unsigned first, unsigned count, struct qc_status *st);
/* Fails always, with the message that the shape of input i does not fit that of input 0. */
bool qc_infer_misfit(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);
/* Fails unless input i has type i64 or i32. */
bool qc_infer_index_type(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);
/* Fails unless input i is absent or has exactly one element (rank 0, or [1]). */
bool qc_infer_scalar(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);
/* The same for any rank, such as [1,1]. */
bool qc_infer_one_element(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);

/* Fails, naming tensor and element, unless all elements of the constant `scale` are finite, positive, normal float32
   numbers; other values pass. Scales of int32 may be products of two scales, so denormal numbers and 0 are allowed. */
bool qc_infer_scales(const struct qc_infer *c, qc_id scale, bool of_int32, struct qc_status *st);

/* Shapes of products and pools for any element types: the rules of Conv, Gemm, MatMul and pools without their checks of
 * types. */
bool qc_infer_conv_result(struct qc_infer *c, bool transposed, enum qc_dtype result, struct qc_status *st);
bool qc_infer_gemm_result(struct qc_infer *c, enum qc_dtype result, struct qc_status *st);
bool qc_infer_matmul_result(struct qc_infer *c, enum qc_dtype result, struct qc_status *st);
bool qc_infer_pool_result(struct qc_infer *c, struct qc_status *st);

/* Fails with this code unless the text of an attribute is in the list, which ends with NULL. */
bool qc_infer_one_of(const struct qc_infer *c, const char *attribute, const char *otherwise, const char *const *handled,
                     enum qc_code code, struct qc_status *st);

/* Returns f32 for an integer type, else the type itself. */
enum qc_dtype qc_float_type_of(enum qc_dtype t);
