// SPDX-License-Identifier: Apache-2.0
/* Who uses what: an index that is made once of a graph, and asked instead of looking through all of its nodes. It is
   wrong as soon as the graph gets another node or output; parameters of quantizers may change. */
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
    const struct qc_use *use;     /* ... by nodes in order, then by input; outputs of the graph last */
    const uint32_t *output_count; /* [value_count + 1]: how many of them are outputs */
};

/* Arrays in the arena given. Errors: memory. */
bool qc_uses_of(struct qc_uses *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* The same of the first `nodes` nodes alone, which the outputs are made by. */
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
/* By nodes alone. A node that reads a value twice is there twice, one after the other. */
static inline struct qc_use_list qc_readers(const struct qc_uses *u, qc_id v)
{
    return (struct qc_use_list){.count = u->first[v + 1] - u->first[v] - u->output_count[v],
                                .of = u->use + u->first[v]};
}
/* The node that alone uses a value, and once; 0: there is none, or it is an output of the graph. */
qc_id qc_only_reader(const struct qc_uses *u, qc_id v);
