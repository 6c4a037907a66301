// SPDX-License-Identifier: Apache-2.0
/* The functions of one real variable (the QC_UNARY rows of graph/types/ops.def, and Gelu) over plain float arrays: for
   the kernels, and for tables of quantized values. */
#pragma once

#include "graph/core/graph.h"

/* y[i] = f(x[i]; a, b) for i < n. In place (y == x) is fine. */
typedef void qc_unary_fn(float *y, const float *x, int64_t n, float a, float b);

struct qc_unary {
    qc_unary_fn *fn;
    float a, b; /* the node's attributes, or their defaults */
};

/* The function a node computes. Errors: not such an op, or an attribute value that is not handled (QC_UNSUPPORTED). */
bool qc_unary_of(struct qc_unary *out, const struct qc_node *n, struct qc_status *st);

/* A function that is composed of ops (op Table, graph/core/function.h); it lives in the arena it is made in. */
struct qc_composed;
bool qc_composed_of(struct qc_composed **out, const struct qc_node *n, struct qc_arena *a, struct qc_status *st);
/* Floats of scratch that a run wants. */
size_t qc_composed_scratch(const struct qc_composed *f);
/* y[i] = f(x[i]) for i < n <= QC_COMPOSED_BLOCK; in place is fine. */
enum { QC_COMPOSED_BLOCK = 256 };
void qc_composed_run(const struct qc_composed *f, float *y, const float *x, int64_t n, float *scratch);
