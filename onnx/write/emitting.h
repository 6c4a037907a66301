// SPDX-License-Identifier: Apache-2.0
/* Inside onnx/: a graph on its way into a model. */
#pragma once

#include "onnx/read/proto.h"
#include "onnx/write/emit.h"

struct qc_emit_list {
    size_t count, capacity;
    void **items;
};

/* Names that are given out: a hash table. */
struct qc_emit_taken {
    const char **slots; /* [slot_count], a power of two */
    size_t slot_count, count;
};

struct qc_emitter {
    struct qc_arena *arena; /* all messages; dies with the emission */
    const struct qc_graph *g;
    const struct qc_emitter *outer; /* of a body: the graph around it */
    const char **captured;          /* [input_count] of a body: what its inputs are called outside, or NULL */
    int opset;
    bool contrib;                            /* a node of ONNX Runtime's domain is in it */
    unsigned char *used;                     /* [value_count + 1]: an output needs it */
    const char **names;                      /* [value_count + 1]: in the file */
    const struct qc_port *inputs, *outputs;  /* the graph's, in a body by the names that they have in the file */
    struct qc_emit_taken taken, taken_nodes; /* names of values; of nodes, which are a space of their own */
    struct qc_emit_list nodes, initializers, domains;
    struct qc_emit_list *tensors; /* the initializers of the whole model */
    const char *const *node_docs; /* as in the options */
    Onnx__ModelProto *carried;    /* NULL, or what the graph carries */
};

/* Names (emit_names.c): those of ports first, then those values have, then new ones from nodes. */
bool qc_emit_assign_names(struct qc_emitter *e, struct qc_status *st);
/* base_suffix, or with a number when that is taken. NULL and a status when memory is out. */
const char *qc_emit_fresh_name(struct qc_emitter *e, const char *base, const char *suffix, struct qc_status *st);

bool qc_emit_take(struct qc_emitter *e, const char *name, struct qc_status *st); /* nobody else gets it */

/* The name for a node of the graph: with a number when another node has it. NULL: it has none, or memory is out. */
const char *qc_emit_node_name(struct qc_emitter *e, const char *name, struct qc_status *st);
bool qc_emit_take_node(struct qc_emitter *e, const char *name, struct qc_status *st);

/* What is carried through (emit_carried.c). Begin takes its names, behind those of ports; graph and model add it to
   what is there. */
bool qc_emit_carried_begin(struct qc_emitter *e, struct qc_status *st);
bool qc_emit_carried_graph(Onnx__GraphProto *p, struct qc_emitter *e, struct qc_status *st);
bool qc_emit_carried_domains(struct qc_emitter *e, struct qc_status *st);
void qc_emit_carried_model(Onnx__ModelProto *m, const struct qc_emitter *e);
void qc_emit_carried_end(struct qc_emitter *e); /* behind the packing */

/* opset_import; the first version that is given for a domain holds. */
bool qc_emit_domain(struct qc_emitter *e, const char *domain, int64_t version, struct qc_status *st);

bool qc_emit_append(struct qc_emitter *e, struct qc_emit_list *to, void *item, struct qc_status *st);

/* The body of a node, the first `given` inputs of which are ONNX's (emit_node.c); outer: where it stands. */
Onnx__GraphProto *qc_emit_body(struct qc_emitter *outer, const struct qc_node *n, const struct qc_graph *body,
                               struct qc_status *st);
/* Fills a graph: initializers, nodes, ports but for captures (emit_model.c). */
bool qc_emit_graph(Onnx__GraphProto *p, struct qc_emitter *e, const struct qc_onnx_emit_options *o,
                   struct qc_status *st);
bool qc_emit_mark_used(struct qc_emitter *e, struct qc_status *st);
bool qc_emit_initializer(struct qc_emitter *e, Onnx__TensorProto *t, struct qc_status *st);

/* Messages (emit_node.c). Tensor data is borrowed, but for packed 4-bit elements. */
Onnx__TensorProto *qc_emit_tensor(struct qc_arena *a, const char *name, const struct qc_tensor *t,
                                  struct qc_status *st);
bool qc_emit_node(struct qc_emitter *e, const struct qc_node *n, struct qc_status *st);
bool qc_emit_identity(struct qc_emitter *e, const char *from, const char *to, struct qc_status *st);

/* quantization_annotation and its initializers (emit_annotation.c). */
bool qc_emit_annotations(Onnx__GraphProto *p, struct qc_emitter *e, const struct qc_onnx_emit_options *o,
                         struct qc_status *st);

/* Strings of messages are not const; nothing writes to them. */
static inline char *qc_emit_text(const char *s)
{
    return (char *)(uintptr_t)s;
}
