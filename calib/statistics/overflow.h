// SPDX-License-Identifier: Apache-2.0
/* Accumulators of few bits over a whole data set: integers, so the same for any number of workers. */
#pragma once

#include "simq/plan/plan.h"

/* One multiply-accumulate node whose accumulator can leave its range, by its weights and levels. */
struct qc_layer_overflow {
    qc_id node;       /* of the graph that was run */
    const char *name; /* of the node, or of its result */
    unsigned bits;    /* the least that would hold every sum that was seen; 0 before a run */
    struct qc_sums sums;
};

struct qc_overflows {
    size_t count;
    struct qc_layer_overflow *layers; /* in the order of the plan */
};

/* What a node is called in such a list: its own name, or that of its result; from the arena. */
const char *qc_overflow_name(const struct qc_graph *g, qc_id node, struct qc_arena *a, struct qc_status *st);

/* An empty list for a plan of graph g, from the arena. */
bool qc_overflows_new(struct qc_overflows *out, const struct qc_plan *p, const struct qc_graph *g, struct qc_arena *a,
                      struct qc_status *st);

/* Adds all that a runner of that plan has seen. */
void qc_overflows_add(struct qc_overflows *o, const struct qc_runner *r);

/* Of a node of the graph; NULL when its accumulator cannot leave the range. */
const struct qc_layer_overflow *qc_overflow_of(const struct qc_overflows *o, qc_id node);
