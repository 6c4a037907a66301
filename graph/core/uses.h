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

/* An index of the values of each set of qparams, made once per graph. It is invalid once a value is added to the
   graph; parameters of quantizers may change. */
struct qc_stored_values {
    const size_t *first; /* [qparams_count + 2]: values of qparams s are value[first[s]] to value[first[s + 1] - 1] */
    const qc_id *value;  /* ascending; without real values */
};

/* Arrays are allocated in the arena. Fails if out of memory. */
bool qc_stored_values_of(struct qc_stored_values *out, const struct qc_graph *g, struct qc_arena *a,
                         struct qc_status *st);

/* Returns the next node after node `after` (0: the first one) that gathers rows of a constant table with the numbers of
   `matrix`, or of its transpose; 0: there is none. */
qc_id qc_next_tied_table(const struct qc_graph *g, const struct qc_tensor *matrix, qc_id after);

/* Caches of a decoder: inputs to which a Concat appends the keys or values of a step. */
struct qc_cache {
    const struct qc_node *joins; /* the Concat */
    int axis;                    /* along which it appends */
};

/* Finds the Concat that appends to an input of at least three axes, possibly behind conversions. Other readers may only
   ask for the shape. Returns false if there is none, or if its axis is the first or not free. */
bool qc_cache_of(struct qc_cache *out, const struct qc_uses *u, qc_id input);

/* Returns the axis of the heads; -1 if the cache does not show them. */
int qc_cache_heads(const struct qc_graph *g, const struct qc_cache *c);
