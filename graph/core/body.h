// SPDX-License-Identifier: Apache-2.0
/* Nodes with bodies: If, Loop, Scan. A body is a graph of its own. What it takes from outside is handed to it: behind
   the inputs that ONNX gives the node stand its CAPTURES, the outer values that its bodies use, and the inputs of a
   body are the last inputs of the node, one by one:

     If    (cond, captures...)                       both bodies: (captures...)
     Loop  (trips or -, cond or -, states..., captures...)  body: (iteration, cond, states..., captures...)
     Scan  (states..., scanned..., captures...)             body: (states..., part of scanned..., captures...)

   Outputs as in ONNX: those of a branch; states and stacked outputs of Loop (whose body gives its condition first) and
   of Scan. An attribute "captures" (ours; absent: 0) of Loop and Scan says how many there are. Values that cross the
   border are real. Sources: ONNX If-11, Loop-11, Scan-9. */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/rebuild.h"

enum { QC_BODY_DEPTH_MAX = 12, QC_BODIES = 2 };

struct qc_bodies {
    unsigned count; /* If: 2 */
    const struct qc_graph *graph[QC_BODIES];
    const char *attr[QC_BODIES];
    unsigned first;    /* input of the node that is input 0 of its bodies */
    unsigned captures; /* the last inputs of the node */
    unsigned states;   /* Loop, Scan: carried from one iteration to the next */
    unsigned scanned;  /* Scan: inputs that are cut into parts */
    unsigned stacked;  /* outputs that are made of parts, behind the states */
    unsigned before;   /* outputs of a body before its states: 1 in a Loop */
};

/* Has the op bodies? */
static inline bool qc_op_has_bodies(enum qc_op op)
{
    return op == QC_OP_If || op == QC_OP_Loop || op == QC_OP_Scan;
}

/* Takes such a node apart. Errors: a body is missing, or numbers of inputs and outputs do not fit. */
bool qc_bodies_of(struct qc_bodies *out, const struct qc_node *n, struct qc_status *st);

/* Number of captures of a node with bodies; 0 of any other. */
unsigned qc_captures_of(const struct qc_node *n);

/* 0 for a node without bodies, else one more than its deepest body. */
unsigned qc_body_depth(const struct qc_node_def *d);

/* Entry k of "scan_input_axes", "scan_output_axes" or the directions of a Scan: 0 when absent. */
int64_t qc_scan_entry(const struct qc_node *n, const char *attr, unsigned k);

/* The shape of one part of a scanned input, cut along `axis` (in [-rank, rank)). */
bool qc_scan_part(struct qc_shape *out, const struct qc_shape *whole, int64_t axis, struct qc_status *st);

/* The type in which both shapes fit: a dimension that differs is free, of different ranks it is unknown. */
struct qc_shape qc_shape_join(const struct qc_shape *a, const struct qc_shape *b);

/* The body with other types of inputs (dtypes stay; shapes[k]), and with constants in place of inputs where
   constants[k] is one (NULL: none; the input stays, unused). Types are inferred again. */
bool qc_body_specialise(struct qc_graph **out, const struct qc_graph *body, const struct qc_shape *shapes,
                        const struct qc_tensor *const *constants, struct qc_status *st);

/* The node of r->from with all shapes that are known now put into its bodies; inputs are mapped. attrs: [attr_count]
   of the node, graphs replaced by new ones, which are the caller's (qc_bodies_release). */
bool qc_bodies_specialise(struct qc_attr *attrs, const struct qc_rebuild *r, const struct qc_node *n,
                          struct qc_status *st);
void qc_bodies_release(struct qc_attr *attrs, unsigned count);

/* The nodes of a body in r->to instead of the node, whose inputs are mapped; maps its outputs. The body has no qparams.
 */
bool qc_body_inline(struct qc_rebuild *r, const struct qc_node *n, const struct qc_graph *body, struct qc_status *st);

/* The branch of an If whose condition is a constant in r->to, and which can be written in its place; else NULL. */
const struct qc_graph *qc_constant_branch(const struct qc_rebuild *r, const struct qc_node *n);
