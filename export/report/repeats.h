// SPDX-License-Identifier: Apache-2.0
/* Stretches of a network that come again and again: the blocks of a transformer, the stages of a CNN. */
#pragma once

#include "base/arena.h"
#include "export/report/report.h"

/* Nodes [first, first + copies * length): copies, each of `length` nodes whose ops are the same in the same order. */
struct qc_repeat {
    size_t first, length, copies;
};

/* nodes: [count] in topological order, their inputs among them. Repeats do not overlap and are in their order; copies
   >= 2, and a copy has 3 nodes or more and does not itself repeat something shorter. Where it may begin at several
   places, it begins where the fewest values come in. Time: at most some multiple of 2e7 + count. *out lives in a.
   Errors: memory. */
bool qc_repeats_find(struct qc_repeat **out, size_t *repeat_count, const struct qc_report_node *nodes, size_t count,
                     struct qc_arena *a, struct qc_status *st);
