// SPDX-License-Identifier: Apache-2.0
/* Checks a graph; runs after every pass. */
#pragma once

#include "graph/core/graph.h"

/* Checks topological order, ids, arities, unique names, inferred types and qparams: factors, counts, positive normal
   scales, zero points within the type, channel counts that fit the axis. Fails with QC_BAD_INPUT. */
bool qc_graph_verify(const struct qc_graph *g, struct qc_status *st);

/* Number of nodes per op. */
struct qc_op_counts {
    size_t of[QC_OP_COUNT];
};
void qc_graph_count_ops(struct qc_op_counts *out, const struct qc_graph *g);

/* Fails if there are more nodes of a multiply-accumulate op (affine behaviour PRODUCT) than before: passes must not
   duplicate work. Gemm and MatMul are counted together. */
bool qc_graph_verify_heavy(const struct qc_graph *g, const struct qc_op_counts *before, const char *pass,
                           struct qc_status *st);
