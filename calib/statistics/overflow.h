// SPDX-License-Identifier: Apache-2.0
/* Overflow of narrow accumulators over a whole data set: integers, so the same for any number of workers. */
#pragma once

#include "simq/plan/plan.h"

/* One multiply-accumulate node whose accumulator can overflow, judged by its weights and levels. */
struct qc_layer_overflow {
    qc_id node;       /* of the graph that was run */
    const char *name; /* of the node, or of its result */
    unsigned bits;    /* least bits that hold every sum seen; 0 before a run */
    struct qc_sums sums;
};

struct qc_overflows {
    size_t count;
    struct qc_layer_overflow *layers; /* in the order of the plan */
};

/* Makes an empty list for a plan of graph g, in the arena. Fails if memory is out. */
bool qc_overflows_new(struct qc_overflows *out, const struct qc_plan *p, const struct qc_graph *g, struct qc_arena *a,
                      struct qc_status *st);

/* Adds the sums of a runner of that plan. */
void qc_overflows_add(struct qc_overflows *o, const struct qc_runner *r);

/* Returns the entry of a node; NULL if its accumulator cannot overflow. */
const struct qc_layer_overflow *qc_overflow_of(const struct qc_overflows *o, qc_id node);
