// SPDX-License-Identifier: Apache-2.0
/* What the type rules (graph/infer/infer_*.c) share. */
#pragma once

#include "graph/core/infer.h"

/* Sets the type of an output. Errors: more elements than can be held in memory, even with every free dimension at 1. */
bool qc_infer_set(struct qc_infer *c, unsigned output, enum qc_dtype dtype, const struct qc_shape *shape,
                  struct qc_status *st);

/* A list of integers given as an input (axes, pads, a shape): i64 or i32, of rank 0 or 1. */
enum { QC_LIST_MAX = 64 };
struct qc_list {
    bool known;    /* the input is a constant: value[] is valid */
    int64_t count; /* QC_FREE when not even the length is known */
    int64_t value[QC_LIST_MAX];
};
/* Input i must be present; `what` names it in errors: wrong type or rank, more than QC_LIST_MAX values. */
bool qc_infer_list(struct qc_list *out, const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);

/* Axes (in [-rank, rank)) as one flag per axis. Errors: out of range, an axis twice. */
bool qc_infer_axes(bool has[QC_RANK_MAX], size_t count, const int64_t *axes, int rank, struct qc_status *st);

/* The dimension that is a and b at once; false when both are fixed and differ. */
static inline bool qc_dim_meet(int64_t *out, int64_t a, int64_t b)
{
    if (a != QC_FREE && b != QC_FREE && a != b) return false;
    *out = a == QC_FREE ? b : a;
    return true;
}

/* a * b; free when either is. False on overflow. */
bool qc_dim_times(int64_t *out, int64_t a, int64_t b);

/* An unknown shape (rank < 0), or a shape of `rank` free dimensions. QC_UNSUPPORTED beyond QC_RANK_MAX. */
bool qc_shape_free(struct qc_shape *out, int64_t rank, struct qc_status *st);

/* Is one of the inputs affine? Then storage types say nothing, and the caller of the rule sets the result's. */
bool qc_infer_affine(const struct qc_infer *c);

/* Inputs first .. first+count-1 that are present have the dtype of input `first`, unless one is affine. */
bool qc_infer_same_dtype(const struct qc_infer *c, unsigned first, unsigned count, struct qc_status *st);
/* The same, and it is a floating-point type. */
bool qc_infer_same_float(const struct qc_infer *c, unsigned first, unsigned count, struct qc_status *st);
/* Fails: the shape of input i does not fit that of input 0. */
bool qc_infer_misfit(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);
/* Input i is of type i64 or i32. */
bool qc_infer_index_type(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);
/* Input i, if present, has exactly one element (rank 0, or [1]). */
bool qc_infer_scalar(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);
/* The same, of any rank: [1,1] too. */
bool qc_infer_one_element(const struct qc_infer *c, unsigned i, const char *what, struct qc_status *st);

/* Are the elements of constant `scale` (any other value passes) scales: finite and positive normal float32 numbers?
   Those of int32 may be products of two scales, which may be denormal or, too small for a float32, 0. Errors name the
   tensor and the element. */
bool qc_infer_scales(const struct qc_infer *c, qc_id scale, bool of_int32, struct qc_status *st);

/* Shapes of products and pools, whatever the element types: the rules of Conv, Gemm, MatMul and pools without their
 * checks of types. */
bool qc_infer_conv_result(struct qc_infer *c, bool transposed, enum qc_dtype result, struct qc_status *st);
bool qc_infer_gemm_result(struct qc_infer *c, enum qc_dtype result, struct qc_status *st);
bool qc_infer_matmul_result(struct qc_infer *c, enum qc_dtype result, struct qc_status *st);
bool qc_infer_pool_result(struct qc_infer *c, struct qc_status *st);

/* f32 for integers, else the type itself. */
enum qc_dtype qc_float_type_of(enum qc_dtype t);
