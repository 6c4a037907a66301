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
    size_t value_capacity, node_capacity, qparams_capacity, input_capacity, output_capacity, call_capacity;
    struct qc_index names, constants, nodes, quantizer_names;
    struct qc_index products; /* by each factor */
    struct qc_index suffixed; /* names that were requested more than once: their indices in suffixes, from 1 */
    size_t suffix_capacity;
    struct qc_suffixes *suffixes;
    bool borrows_qparams; /* qparams_of, quantizer_names and products belong to another graph: the graph is a part of it
                             (qc_rebuild_begin_part), or was made from such a part */
    uint64_t *node_qparams; /* [node_capacity]: qparams and axis of the result that a node was added with; part of its
                               identity */
};

/* Grows a malloc'ed array of (count + 1) used items by at least one. */
bool qc_grow(void **array, size_t *capacity, size_t count, size_t size, struct qc_status *st);

/* Copies the qparams of another graph with their ids and parameters to a graph that has none; observed values are
   omitted. Borrows them if the other graph does. */
bool qc_graph_copy_qparams(struct qc_graph *to, const struct qc_graph *from, struct qc_status *st);

/* Lets a graph that has no qparams use these, of which `from` has the hash tables. */
void qc_graph_borrow_qparams(struct qc_graph *to, const struct qc_graph *from, struct qc_qparams *qparams);

/* Appends a value; name may be NULL. Returns 0 and a status on failure. */
qc_id qc_graph_new_value(struct qc_graph *g, const struct qc_value *v, const char *name, struct qc_status *st);

/* Checks the conditions of qc_graph_add_affine_constant. */
bool qc_graph_check_affine_constant(const struct qc_graph *g, const struct qc_tensor *t, qc_id qparams, int axis,
                                    struct qc_status *st);

/* Infers the types of the outputs of a node (out: [output_count], zeroed) from its inputs, its attributes, and the
   qparams and axis it was added with. Fails as qc_graph_add does; the message does not name the node. */
bool qc_node_types(struct qc_type *out, const struct qc_graph *g, const struct qc_node *n, qc_id qparams, int axis,
                   struct qc_status *st);
