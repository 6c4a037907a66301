// SPDX-License-Identifier: Apache-2.0
/* Groups of a folded graph: a multiply-accumulate op and the integer ops that follow it, up to the first value that
   another node uses: clamps, requantize, unary functions and tables. A whole group reads and gives stored integers; no
   other node reads its accumulator. A function of the accumulator's real value whose result is stored belongs to the
   group too: it is rounded once. */
#pragma once

#include "graph/core/graph.h"

enum { QC_GROUP_NODES = 16 };

enum qc_group_break {
    QC_GROUP_WHOLE,
    QC_GROUP_FLOAT_OP, /* `breaks_at` is a float op, a unary function or clamp that could be part of the group */
    QC_GROUP_WIDE,     /* the accumulator itself is dequantized: `breaks_at` reads it in float (0: a graph output) */
    QC_GROUP_SEVERAL_USERS, /* several ops read the accumulator; `breaks_at` is the first */
    QC_GROUP_FLOAT          /* the op itself is a float op */
};

struct qc_group_info {
    qc_id head;                  /* node of the multiply-accumulate op */
    unsigned count;              /* number of nodes that follow it */
    qc_id nodes[QC_GROUP_NODES]; /* in order */
    qc_id result;                /* value that the last node makes */
    enum qc_group_break how;
    qc_id breaks_at; /* node, or 0 */
};

/* Finds one group for each multiply-accumulate op, in topological order. *out is allocated in a. */
bool qc_groups_find(const struct qc_group_info **out, size_t *count, const struct qc_graph *g, struct qc_arena *a,
                    struct qc_status *st);

/* Returns it in words: "is one piece", "the accumulator is read in float", ... */
const char *qc_group_break_text(enum qc_group_break how);
