// SPDX-License-Identifier: Apache-2.0
/* The part of a model file that is carried through as it came: operators that qcalib cannot compute, and what follows
   from them. The graph holds the rest; the values that this part reads are outputs of the graph, behind those of the
   model. Every graph that is made from another has the same carried part, and the one that is written gets it back. */
#pragma once

#include "base/arena.h"
#include "graph/types/tensor.h"

struct qc_carried_node {
    const char *domain, *op; /* as in the file; "" is the default domain */
    const char *name;        /* of the node, else of its first output */
    const char *detail;      /* unknown: why it is not computed, NULL when there is no such operator here; else which
                                node it follows from */
    bool unknown;            /* cannot be computed itself; else it only follows from one that cannot */
};

struct qc_carried_constant {
    const char *name; /* in the file */
    const struct qc_tensor *tensor;
};

/* An input or output of the model as the file declares it. */
struct qc_carried_port {
    const char *name, *type; /* type: "f32", "string (8)", or "" when the file does not say */
    struct qc_shape shape;   /* rank -1: not known */
};

struct qc_carried {
    struct qc_arena *arena; /* everything but the tensors */
    size_t node_count, unknown_count;
    const struct qc_carried_node *nodes; /* producers first */
    size_t constant_count;               /* initializers that these nodes read, of types that are known */
    const struct qc_carried_constant *constants;
    /* An ONNX ModelProto: these nodes, other initializers, types of values, inputs and outputs of the whole model,
       opsets, functions. onnx/ reads and writes it. */
    const void *bytes;
    size_t size;
    size_t input_count, model_output_count; /* of the whole model, in its order */
    const struct qc_carried_port *inputs, *outputs;
    int opset;                   /* of the default domain, as in the file */
    size_t output_count;         /* outputs of the graph that are outputs of the model too: its first ones */
    _Atomic unsigned references; /* graphs in several threads may share it */
};

/* Empty; NULL when memory is out. */
struct qc_carried *qc_carried_new(struct qc_status *st);
struct qc_carried *qc_carried_ref(const struct qc_carried *c); /* NULL gives NULL */
void qc_carried_unref(struct qc_carried *c);                   /* NULL-safe */

/* The operators that are not known, each kind once: "If (2 nodes, the first is 'cond'), com.acme::Fused (1 node, 'x')".
   Long lists are cut. */
enum { QC_CARRIED_TEXT = 1500 };
const char *qc_carried_text(char list[QC_CARRIED_TEXT], const struct qc_carried *c);

/* Why a node is carried, for reports; from arena a. NULL when memory is out. */
const char *qc_carried_reason(const struct qc_carried_node *n, struct qc_arena *a, struct qc_status *st);
