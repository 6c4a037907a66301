// SPDX-License-Identifier: Apache-2.0
/* A strided window on tensor memory, in logical (ONNX: N,C,H,W) dimension order. Channels-last memory differs only
   in its strides. */
#pragma once

#include "graph/types/tensor.h"

struct qc_view {
    enum qc_dtype dtype;
    int rank;
    int64_t dim[QC_RANK_MAX];
    int64_t stride[QC_RANK_MAX]; /* in elements; 0 for a broadcast dimension */
    void *data;
};

enum qc_layout {
    QC_LAYOUT_ROW, /* row-major in logical order */
    QC_LAYOUT_LAST /* rank 3 to 5: N, spatial..., C in memory */
};

struct qc_view qc_view_of(enum qc_dtype dtype, const struct qc_shape *shape, enum qc_layout layout, void *data);
size_t qc_view_count(const struct qc_view *v);
size_t qc_view_bytes(const struct qc_view *v);
/* Returns whether the elements fill one contiguous block, in any order of dimensions. */
bool qc_view_dense(const struct qc_view *v);
/* Returns whether v is row-major in logical order. Dimensions of size 1 are ignored. */
bool qc_view_row_major(const struct qc_view *v);
/* Returns whether both views are dense with the same dims and strides: elementwise work may then run over flat
   memory. */
bool qc_view_same_order(const struct qc_view *a, const struct qc_view *b);
/* Broadcasts v to the dims of `to` (numpy rules) by zero strides. */
struct qc_view qc_view_broadcast(const struct qc_view *v, const struct qc_view *to);
/* Swaps the first two dimensions if `turn` is true. */
struct qc_view qc_view_turned(const struct qc_view *v, bool turn);
/* Inserts a dimension of size 1 at `at`. */
struct qc_view qc_view_with_one(const struct qc_view *v, int at);
/* Copies elements. Same dims and dtype, any strides, no overlap. Fast for dense views and between channels-last and
   row-major. */
void qc_view_copy(const struct qc_view *to, const struct qc_view *from);

/* Loops over up to 4 views of the same dims. Dimensions are sorted by the strides of the first view and merged if
   possible. fn gets inner runs of n elements with a constant stride per view. */
typedef void qc_view_run_fn(void *user, int64_t n, void *const data[], const int64_t stride[]);
#define QC_VIEWS(...) ((const struct qc_view *const[]){__VA_ARGS__})
void qc_view_each(unsigned count, const struct qc_view *const views[], qc_view_run_fn *fn, void *user);
