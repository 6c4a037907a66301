// SPDX-License-Identifier: Apache-2.0
/* Inside onnx/: the state of an emission. It holds the first failure in st: functions go on, messages and names are
   then empty, and qc_onnx_emit asks at the end. */
#pragma once

#include "base/index.h"
#include "onnx/read/proto.h"
#include "onnx/write/emit.h"

struct qc_emit_list {
    size_t count, capacity;
    void **items;
};

enum { QC_EMIT_OUTSIDE = 2, QC_EMIT_SPARE = 512 /* bytes; no message has more */ };

struct qc_emitter {
    struct qc_arena *arena; /* all messages; freed after the emission */
    struct qc_status *st;
    void *spare; /* in place of a message if memory is out */
    const struct qc_graph *g;
    struct qc_emitter *outer; /* of a body: the graph around it */
    const char **captured;    /* [input_count] of a body: outer names of its inputs, or NULL */
    int opset;
    unsigned char *used;                    /* [value_count + 1]: an output needs it; QC_EMIT_OUTSIDE: a constant
                                               that the outermost graph has */
    const char **names;                     /* [value_count + 1]: in the file */
    const struct qc_port *inputs, *outputs; /* the graph's; in a body with their names in the file */
    struct qc_texts taken, taken_nodes;     /* names of values; names of nodes, which are separate */
    struct qc_emit_list nodes, initializers, domains, functions;
    struct qc_emit_list op_domains; /* texts: domains of operators of the op table but ONNX's own */
    struct qc_emit_list *tensors;   /* the initializers of the whole model */
    const char *const *node_docs;   /* as in the options */
    Onnx__ModelProto *carried;      /* carried part of the graph, or NULL */
    struct qc_emit_shared *shared;  /* of the outermost graph: constants of more than one graph (emit_shared.c) */
};

/* Names (emit_carried.c): ports keep theirs first, then other named values; others get names from their nodes. */
void qc_emit_assign_names(struct qc_emitter *e);
/* Returns base_suffix, followed by a number if that name is in use. */
const char *qc_emit_fresh_name(struct qc_emitter *e, const char *base, const char *suffix);

/* Returns the name, followed by a number if it is in use. */
const char *qc_emit_unique_name(struct qc_emitter *e, const char *name);

/* Constants that several graphs share (emit_shared.c). Find reserves their names in the outermost graph e, whose own
   values have names. Assign names them in a body e, and adds them to the outermost graph where they are missing. */
void qc_emit_find_shared(struct qc_emitter *e);
void qc_emit_assign_shared(struct qc_emitter *e);

/* Returns the name for a node of the graph, followed by a number if another node has it. NULL: no name. */
const char *qc_emit_node_name(struct qc_emitter *e, const char *name);

/* Carried operators (emit_carried.c). Begin reserves their names after those of ports; graph and domains add them. */
void qc_emit_carried_graph(Onnx__GraphProto *p, struct qc_emitter *e);
void qc_emit_carried_domains(struct qc_emitter *e);
void qc_emit_carried_model(Onnx__ModelProto *m, struct qc_emitter *e);
void qc_emit_carried_end(struct qc_emitter *e); /* after packing */

/* Adds to opset_import. For each domain the first version counts. */
void qc_emit_domain(struct qc_emitter *e, const char *domain, int64_t version);

void qc_emit_append(struct qc_emitter *e, struct qc_emit_list *to, void *item);

/* Returns a cleared message in the arena; never NULL. */
void *qc_emit_new(struct qc_emitter *e, size_t size);
#define QC_EMIT_NEW(p, e, T, init)                                                                                     \
    T *p = qc_emit_new(e, sizeof(T));                                                                                  \
    init(p)
/* Fills a graph with initializers, nodes, and ports except captures (emit_model.c). */
void qc_emit_graph(Onnx__GraphProto *p, struct qc_emitter *e, const struct qc_onnx_emit_options *o);
void qc_emit_mark_used(struct qc_emitter *e);
void qc_emit_initializer(struct qc_emitter *e, Onnx__TensorProto *t);

/* Messages (emit_node.c). Tensor data are borrowed, except packed elements of less than 8 bits. */
Onnx__TensorProto *qc_emit_tensor(struct qc_emitter *e, const char *name, const struct qc_tensor *t);
void qc_emit_node(struct qc_emitter *e, const struct qc_node *n);
/* Adds a node of one input and one output, and returns it. */
Onnx__NodeProto *qc_emit_unary(struct qc_emitter *e, const char *op, const char *from, const char *to);
/* Adds a copy that ONNX Runtime makes when it loads the file. It computes Identity of the outer graph later. */
void qc_emit_copy(struct qc_emitter *e, const char *from, const char *to, int rank);

/* Makes p a call of the function of a RoundInBlocks, which is added to the model (emit_node.c). Fails with
   QC_UNSUPPORTED if the blocks are neither along axis 1 nor along axis -1, the last one. */
#define QC_EMIT_OWN_DOMAIN "qcalib"

/* Strings of messages are not const, but never written. */
static inline char *qc_emit_text(const char *s)
{
    return (char *)(uintptr_t)s;
}
