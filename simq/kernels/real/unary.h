// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: the functions of one real variable (the QC_UNARY rows of graph/types/ops.def, and Gelu) over plain
   float arrays, for kernels and for tables of quantized values. */
#pragma once

#include "graph/core/graph.h"

/* y[i] = f(x[i]; a, b) for i < n. May work in place (y == x). */
typedef void qc_unary_fn(float *y, const float *x, int64_t n, float a, float b);

struct qc_unary {
    qc_unary_fn *fn;
    float a, b; /* the node's attributes, or their defaults */
};

/* Returns the function of a node. Fails if the op is not one of them, or if an attribute value is not supported
   (QC_UNSUPPORTED). */
bool qc_unary_of(struct qc_unary *out, const struct qc_node *n, struct qc_status *st);

/* A function composed of ops (op Table, graph/core/function.h); allocated in the arena. */
struct qc_composed;
bool qc_composed_of(struct qc_composed **out, const struct qc_node *n, struct qc_arena *a, struct qc_status *st);
/* Returns the scratch per run, in floats. */
size_t qc_composed_scratch(const struct qc_composed *f);
/* y[i] = f(x[i]) for i < n <= QC_COMPOSED_BLOCK. May work in place. */
enum { QC_COMPOSED_BLOCK = 256 };
void qc_composed_run(const struct qc_composed *f, float *y, const float *x, int64_t n, float *scratch);
