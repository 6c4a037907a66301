// SPDX-License-Identifier: Apache-2.0
/* Building a new graph from an old one: the frame of every pass. */
#pragma once

#include "graph/core/graph.h"

struct qc_rebuild {
    const struct qc_graph *from;
    struct qc_graph *to;
    qc_id *map; /* [from->value_count + 1]: value in `to`, 0 if not made yet */
};

/* Makes an empty real graph with the name, opset, budget and carried part of `from`. The caller owns *out. */
bool qc_graph_new_like(struct qc_graph **out, const struct qc_graph *from, struct qc_status *st);

/* Starts a graph with the name, opset, qparams (same ids) and all inputs of `from`, used or not. */
bool qc_rebuild_begin(struct qc_rebuild *r, const struct qc_graph *from, struct qc_status *st);

/* Copies the file's declaration of an input or output: names of dimensions, shape of an output. */
bool qc_port_copy(struct qc_port *to, const struct qc_port *from, struct qc_arena *a, struct qc_status *st);

/* As qc_rebuild_begin, without the inputs. */
bool qc_rebuild_begin_bare(struct qc_rebuild *r, const struct qc_graph *from, struct qc_status *st);

/* Returns the new id of an old value. An unmapped constant is copied; for the result of a node, the node and
   everything it needs are copied unchanged. Iterative, so the depth of the graph is not limited. Returns 0 for value
   0, and with a status on failure. */
qc_id qc_rebuild_value(struct qc_rebuild *r, qc_id old, struct qc_status *st);

/* Returns the new values of the inputs of a node of r->from, in the arena of r->to. Returns NULL if out of memory. */
qc_id *qc_rebuild_inputs(struct qc_rebuild *r, const struct qc_node *n, struct qc_status *st);
/* Maps the outputs of a node of r->from to new values from `first` on; does nothing if it is 0. Returns first. */
qc_id qc_rebuild_map(struct qc_rebuild *r, const struct qc_node *n, qc_id first);

/* Copies one node whose inputs are mapped or constants, and maps its outputs. Returns the first new output. */
qc_id qc_rebuild_node(struct qc_rebuild *r, qc_id old_node, struct qc_status *st);
/* The same with other attributes, as many as the node has. */
qc_id qc_rebuild_node_with(struct qc_rebuild *r, qc_id old_node, const struct qc_attr *attrs, struct qc_status *st);

/* Adds a Quantize, or a Dequantize, of v. Returns its output; 0 if v is 0 or on failure. */
qc_id qc_graph_quantize(struct qc_graph *g, qc_id v, qc_id qparams, int axis, struct qc_status *st);
qc_id qc_graph_dequantize(struct qc_graph *g, qc_id v, struct qc_status *st);

/* Adds a node like n of graph `from` to `to`, with n's name, attributes, and outputs with their names. with: the
   inputs, and the differences from n: op, input_count, output_names (if not set, those of n); qparams and axis are
   used as they are. Returns the first output; 0 and a status on failure. */
qc_id qc_graph_add_like(struct qc_graph *to, const struct qc_graph *from, const struct qc_node *n,
                        const struct qc_node_def *with, struct qc_status *st);

/* Maps the outputs (copying what they need), translates the observed values of qparams, and returns the graph. */
bool qc_rebuild_finish(struct qc_graph **out, struct qc_rebuild *r, struct qc_status *st);
/* The same with these values of `to` as outputs, one for each output of `from`; 0 leaves an output out. */
bool qc_rebuild_finish_with(struct qc_graph **out, struct qc_rebuild *r, const qc_id *outputs, struct qc_status *st);

/* Copies a graph, without the nodes that its outputs do not need. */
bool qc_graph_copy(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st);

/* NULL-safe; frees the map and, if finish was not reached, the graph. */
void qc_rebuild_free(struct qc_rebuild *r);
/* A rebuild that is freed at the end of its scope: `QC_REBUILD_SCOPE r = {0};` */
#define QC_REBUILD_SCOPE __attribute__((cleanup(qc_rebuild_free))) struct qc_rebuild

/* What graphs of parts of one graph borrow, one after the other, so that making one takes work in proportion to the
   part. */
struct qc_rebuild_room {
    const struct qc_graph *from;
    qc_id *map;                 /* [value_count + 1]: 0 between parts */
    struct qc_qparams *qparams; /* [qparams_count + 1]: parameters of the part's values as in `from` */
};

/* Arrays are allocated in the arena. */
bool qc_rebuild_room_new(struct qc_rebuild_room *out, const struct qc_graph *from, struct qc_arena *a,
                         struct qc_status *st);

/* As qc_rebuild_begin, for a graph of these nodes of room->from and all constants they need. Only qparams of values
   that the nodes read or compute have their parameters; none may be added. */
bool qc_rebuild_begin_part(struct qc_rebuild *r, struct qc_rebuild_room *room, size_t count, const qc_id *nodes,
                           struct qc_status *st);

/* Adds an input for a value that the part reads, and maps the value to it: the input has the real numbers, which are
   quantized if the value is. Returns the mapped value; 0 and a status on failure. */
qc_id qc_rebuild_add_input(struct qc_rebuild *r, struct qc_rebuild_room *room, qc_id v, const char *name,
                           const struct qc_shape *shape, struct qc_status *st);

/* Frees the graph of a part and prepares the room for the next. Needed even if qc_rebuild_begin_part failed. */
void qc_rebuild_end_part(struct qc_rebuild *r, struct qc_rebuild_room *room, size_t count, const qc_id *nodes);
