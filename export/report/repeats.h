// SPDX-License-Identifier: Apache-2.0
/* Repeated stretches of a network: the blocks of a transformer, the stages of a CNN. */
#pragma once

#include "base/arena.h"
#include "export/report/report.h"

/* Nodes [first, first + copies * length): copies of `length` nodes with the same ops in the same order. */
struct qc_repeat {
    size_t first, length, copies;
};

/* nodes: [count] in topological order with their inputs. Repeats are ordered and do not overlap. copies >= 2; a copy
   has at least 3 nodes and does not itself repeat a shorter stretch. Of several possible starts, the one with the
   fewest values from outside is used. Time: at most a multiple of 2e7 + count. *out is allocated in a. Fails if memory
   is out. */
bool qc_repeats_find(struct qc_repeat **out, size_t *repeat_count, const struct qc_report_node *nodes, size_t count,
                     struct qc_arena *a, struct qc_status *st);
