// SPDX-License-Identifier: Apache-2.0
/* Inside graph/: hash tables and capacities of a graph. */
#pragma once

#include "base/index.h"
#include "graph/core/graph.h"

struct qc_suffixes {
    const char *name;
    unsigned next; /* "name_1" to "name_(next - 1)" are taken */
};

struct qc_graph_tables {
    size_t value_capacity, node_capacity, qparams_capacity, input_capacity, output_capacity;
    struct qc_index names, constants, nodes, quantizer_names;
    struct qc_index products; /* by either factor */
    struct qc_index suffixed; /* names that were asked for more than once: their places in suffixes, from 1 */
    size_t suffix_capacity;
    struct qc_suffixes *suffixes;
    uint64_t *node_qparams; /* [node_capacity]: the qparams and axis a node was added with, part of its identity */
};

/* Grows a malloc'd array of (count + 1) used items by at least one more. */
bool qc_grow(void **array, size_t *capacity, size_t count, size_t size, struct qc_status *st);

/* The qparams of another graph with their numbers and parameters, into a graph that has none; what they observe is left
   out. */
bool qc_graph_copy_qparams(struct qc_graph *to, const struct qc_graph *from, struct qc_status *st);

/* Appends a value; name may be NULL. 0 and a status on failure. */
qc_id qc_graph_new_value(struct qc_graph *g, const struct qc_value *v, const char *name, struct qc_status *st);

/* The errors of qc_graph_add_affine_constant. */
bool qc_graph_check_affine_constant(const struct qc_graph *g, const struct qc_tensor *t, qc_id qparams, int axis,
                                    struct qc_status *st);

/* Types of the outputs of a node (out: [output_count], zeroed) as its inputs, attributes, and the qparams and axis it
   was added with give them. Errors as qc_graph_add, without the node's name. */
bool qc_node_types(struct qc_type *out, const struct qc_graph *g, const struct qc_node *n, qc_id qparams, int axis,
                   struct qc_status *st);
