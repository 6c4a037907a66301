// SPDX-License-Identifier: Apache-2.0
/* The part of a model file that is copied unchanged: operators that qcalib cannot compute, and the nodes that depend
   on them. The graph holds the rest. The values that this part reads are graph outputs, after those of the model.
   Every graph made from another has the same carried part; it is written back to the output file. */
#pragma once

#include "base/arena.h"
#include "graph/types/tensor.h"

struct qc_carried_node {
    const char *domain, *op; /* as in the file; "" is the default domain */
    const char *name;        /* of the node, or of its first output */
    const char *detail; /* unknown: why it is not computed, NULL if there is no such operator here; else the node that
                           it depends on */
    bool unknown;       /* it cannot be computed; else it depends on a node that cannot */
};

struct qc_carried_constant {
    const char *name; /* in the file */
    const struct qc_tensor *tensor;
};

/* An input or output of the model, as declared in the file. */
struct qc_carried_port {
    const char *name, *type; /* type: "f32", "string (8)", or "" if the file does not declare one */
    struct qc_shape shape;   /* rank -1: unknown */
};

struct qc_carried {
    struct qc_arena *arena; /* owns everything but the tensors */
    size_t node_count, unknown_count;
    const struct qc_carried_node *nodes; /* producers first */
    size_t constant_count;               /* initializers of known types that these nodes read */
    const struct qc_carried_constant *constants;
    /* An ONNX ModelProto with these nodes, the other initializers, types of values, inputs and outputs of the whole
       model, opsets and functions. onnx/ reads and writes it. */
    const void *bytes;
    size_t size;
    size_t input_count, model_output_count; /* of the whole model, in its order */
    const struct qc_carried_port *inputs, *outputs;
    int opset;                   /* of the default domain, as in the file */
    size_t output_count;         /* number of graph outputs that are also model outputs; they come first */
    _Atomic unsigned references; /* graphs in several threads may share it */
};

/* Returns an empty part; NULL if out of memory. */
struct qc_carried *qc_carried_new(struct qc_status *st);
struct qc_carried *qc_carried_ref(const struct qc_carried *c); /* NULL gives NULL */
void qc_carried_unref(struct qc_carried *c);                   /* NULL-safe */

/* Lists the unknown operators, each kind once: "If (2 nodes, the first is 'cond'), com.acme::Fused (1 node, 'x')".
   Long lists are truncated. */
enum { QC_CARRIED_TEXT = 1500 };
const char *qc_carried_text(char list[QC_CARRIED_TEXT], const struct qc_carried *c);

/* Returns why a node is carried, for reports, in arena a; NULL if out of memory. */
const char *qc_carried_reason(const struct qc_carried_node *n, struct qc_arena *a, struct qc_status *st);
