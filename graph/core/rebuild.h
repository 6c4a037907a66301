// SPDX-License-Identifier: Apache-2.0
/* Building a new graph from an old one: the frame of every pass. */
#pragma once

#include "graph/core/graph.h"

struct qc_rebuild {
    const struct qc_graph *from;
    struct qc_graph *to;
    qc_id *map; /* [from->value_count + 1]: value in `to`, 0 when not made (yet) */
};

/* A real graph without values that has the name and opset of `from`, its budget, and what it carries. *out is owned. */
bool qc_graph_new_like(struct qc_graph **out, const struct qc_graph *from, struct qc_status *st);

/* Starts a graph with the name, opset, qparams (same ids) and inputs of `from` (all of them, used or not). */
bool qc_rebuild_begin(struct qc_rebuild *r, const struct qc_graph *from, struct qc_status *st);

/* What the file says of an input or output: names of dimensions, the shape of an output. */
bool qc_port_copy(struct qc_port *to, const struct qc_port *from, struct qc_arena *a, struct qc_status *st);

/* The same as qc_rebuild_begin without the inputs. */
bool qc_rebuild_begin_bare(struct qc_rebuild *r, const struct qc_graph *from, struct qc_status *st);

/* The new id of an old value: mapped already, a constant (copied on demand), or a node result: then the node and all it
   needs are copied as they are. Iterative: depth of the graph is no matter. 0 and a status on failure. */
qc_id qc_rebuild_value(struct qc_rebuild *r, qc_id old, struct qc_status *st);

/* Copies one node whose inputs are mapped or constants; maps its outputs. Returns the first new output. */
qc_id qc_rebuild_node(struct qc_rebuild *r, qc_id old_node, struct qc_status *st);
/* The same with other attributes, as many as the node has. */
qc_id qc_rebuild_node_with(struct qc_rebuild *r, qc_id old_node, const struct qc_attr *attrs, struct qc_status *st);

/* Adds a node to `to` like n of another graph: name, attributes, outputs and their names are those of n. with: the
   inputs, and what is to be different: op, input_count, output_names (left out: those of n); qparams and axis stand as
   they are. Returns the first output; 0 and a status on failure. */
qc_id qc_graph_add_like(struct qc_graph *to, const struct qc_graph *from, const struct qc_node *n,
                        const struct qc_node_def *with, struct qc_status *st);

/* Maps the outputs (copying what they need), translates the observed values of qparams, and hands over the graph. */
bool qc_rebuild_finish(struct qc_graph **out, struct qc_rebuild *r, struct qc_status *st);
/* The same with these values of `to` as outputs, one for each of `from`. */
bool qc_rebuild_finish_with(struct qc_graph **out, struct qc_rebuild *r, const qc_id *outputs, struct qc_status *st);

/* NULL-safe; frees the map and, when finish was not reached, the graph. */
void qc_rebuild_free(struct qc_rebuild *r);
