// SPDX-License-Identifier: Apache-2.0
/* Checks a graph; run after every pass. */
#pragma once

#include "graph/core/graph.h"

/* Topological order, ids in range, arities, names unique, types re-inferred and equal, qparams consistent (factors,
   counts, scales positive and normal, zero points inside their type, per-channel counts fit the axis). A failure is a
   QC_BAD_INPUT. */
bool qc_graph_verify(const struct qc_graph *g, struct qc_status *st);

/* Number of nodes per op. */
struct qc_op_counts {
    size_t of[QC_OP_COUNT];
};
void qc_graph_count_ops(struct qc_op_counts *out, const struct qc_graph *g);

/* Fails when a multiply-accumulate op (affine behaviour PRODUCT) is there more often than before: nothing may be
   duplicated. Gemm and MatMul are counted together. */
bool qc_graph_verify_heavy(const struct qc_graph *g, const struct qc_op_counts *before, const char *pass,
                           struct qc_status *st);
