// SPDX-License-Identifier: Apache-2.0
/* Nodes with bodies: If, Loop, Scan. A body is a graph of its own and gets outer values as inputs. The node's ONNX
   inputs are followed by its CAPTURES, the outer values that its bodies use. The inputs of a body are the last
   inputs of the node, one by one:

        If    (cond, captures...)                              both bodies: (captures...)
        Loop  (trips or -, cond or -, states..., captures...)  body: (iteration, cond, states..., captures...)
        Scan  (states..., scanned..., captures...)             body: (states..., part of scanned..., captures...)

   Outputs are as in ONNX: those of a branch; states, then stacked outputs of Loop (whose body returns its condition
   first) and of Scan. The attribute "captures" of Loop and Scan (ours; absent: 0) is the number of captures. Values
   that cross the boundary are real. Sources: ONNX If-11, Loop-11, Scan-9. */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/rebuild.h"

enum { QC_BODY_DEPTH_MAX = 12, QC_BODIES = 2 };

struct qc_bodies {
    unsigned count; /* If: 2 */
    const struct qc_graph *graph[QC_BODIES];
    const char *attr[QC_BODIES];
    unsigned first;       /* index of the node's input that is input 0 of its bodies */
    unsigned captures;    /* number of captures, the last inputs of the node */
    unsigned states;      /* Loop, Scan: passed from one iteration to the next */
    unsigned scanned;     /* Scan: inputs that are divided into parts */
    unsigned stacked;     /* outputs stacked from parts, after the states */
    unsigned first_state; /* inputs before the states, of the node and of its bodies: 2 for Loop */
    unsigned before;      /* outputs of a body before its states: 1 for Loop */
};

/* Returns whether the op has bodies. */
static inline bool qc_op_has_bodies(enum qc_op op)
{
    return op == QC_OP_If || op == QC_OP_Loop || op == QC_OP_Scan;
}

/* Reads the layout of a node with bodies. Fails if a body is missing or if the numbers of inputs and outputs do not
   match. */
bool qc_bodies_of(struct qc_bodies *out, const struct qc_node *n, struct qc_status *st);

/* Returns the number of captures of a node with bodies; 0 for other nodes. */
unsigned qc_captures_of(const struct qc_node *n);

/* Returns 0 for a node without bodies, else one more than the depth of its deepest body. */
unsigned qc_body_depth(const struct qc_node_def *d);

/* Returns entry k of "scan_input_axes", "scan_output_axes" or the directions of a Scan; 0 if absent. */
int64_t qc_scan_entry(const struct qc_node *n, const char *attr, unsigned k);

/* Sets the shape of one part of a scanned input, divided along `axis` (in [-rank, rank)). */
bool qc_scan_part(struct qc_shape *out, const struct qc_shape *whole, int64_t axis, struct qc_status *st);

/* Returns the most specific shape that includes both: a dimension that differs is free; if the ranks differ, the
   shape is unknown. */
struct qc_shape qc_shape_join(const struct qc_shape *a, const struct qc_shape *b);

/* Makes a copy of the body with other input shapes (shapes[k]; dtypes stay). If constants[k] is not NULL, it
   replaces the uses of input k, which remains unused. Types are inferred again. */
bool qc_body_specialise(struct qc_graph **out, const struct qc_graph *body, const struct qc_shape *shapes,
                        const struct qc_tensor *const *constants, struct qc_status *st);

/* Copies the attributes of a node of r->from, with the currently known shapes put into its bodies; the inputs must
   be mapped. attrs: [attr_count] of the node; its graphs are new ones, which the caller frees (qc_bodies_release). */
bool qc_bodies_specialise(struct qc_attr *attrs, const struct qc_rebuild *r, const struct qc_node *n,
                          struct qc_status *st);
void qc_bodies_release(struct qc_attr *attrs, unsigned count);

typedef bool qc_body_replace_fn(struct qc_graph **out, const void *user, const struct qc_graph *body,
                                struct qc_status *st);

/* Copies the graph with other bodies. `replace` sets *out to the new body, which is owned, or leaves NULL to keep it.
 */
bool qc_bodies_replace(struct qc_graph **out, const struct qc_graph *g, qc_body_replace_fn *replace, const void *user,
                       struct qc_status *st);

/* Adds the nodes of a body to r->to in place of the node, and maps its outputs. The node's inputs must be mapped;
   the body must have no qparams. */
bool qc_body_inline(struct qc_rebuild *r, const struct qc_node *n, const struct qc_graph *body, struct qc_status *st);

/* Returns the branch of an If whose condition is a constant in r->to, if it can replace the node; else NULL. */
const struct qc_graph *qc_constant_branch(const struct qc_rebuild *r, const struct qc_node *n);
