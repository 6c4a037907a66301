// SPDX-License-Identifier: Apache-2.0
/* An index of the uses of each value, made once per graph. It is invalid once a node or output is added to the
   graph; parameters of quantizers may change. */
#pragma once

#include "graph/core/graph.h"

/* The value is input number `input` of the node; or, with node 0, output number `input` of the graph. */
struct qc_use {
    qc_id node;
    unsigned input;
};

struct qc_uses {
    const struct qc_graph *graph;
    const size_t *first;          /* [value_count + 2]: uses of value v are use[first[v]] to use[first[v + 1] - 1] */
    const struct qc_use *use;     /* ... sorted by node, then by input; outputs of the graph come last */
    const uint32_t *output_count; /* [value_count + 1]: number of uses that are outputs */
};

/* Arrays are allocated in the arena. Fails if out of memory. */
bool qc_uses_of(struct qc_uses *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* The same for the first `nodes` nodes only, which must make the outputs. */
bool qc_uses_of_first(struct qc_uses *out, const struct qc_graph *g, size_t nodes, struct qc_arena *a,
                      struct qc_status *st);

struct qc_use_list {
    size_t count;
    const struct qc_use *of; /* [count]; borrowed */
};

static inline struct qc_use_list qc_all_uses(const struct qc_uses *u, qc_id v)
{
    return (struct qc_use_list){.count = u->first[v + 1] - u->first[v], .of = u->use + u->first[v]};
}
/* Uses by nodes only. A node that reads a value twice appears twice in a row. */
static inline struct qc_use_list qc_readers(const struct qc_uses *u, qc_id v)
{
    return (struct qc_use_list){.count = u->first[v + 1] - u->first[v] - u->output_count[v],
                                .of = u->use + u->first[v]};
}
/* Returns the only node that uses a value, if it uses it once; 0 if there is none or if the value is an output of
   the graph. */
qc_id qc_only_reader(const struct qc_uses *u, qc_id v);
