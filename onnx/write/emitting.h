// SPDX-License-Identifier: Apache-2.0
/* Inside onnx/: the state of an emission. */
#pragma once

#include "base/index.h"
#include "onnx/read/proto.h"
#include "onnx/write/emit.h"

struct qc_emit_list {
    size_t count, capacity;
    void **items;
};

enum { QC_EMIT_OUTSIDE = 2 };

struct qc_emitter {
    struct qc_arena *arena; /* all messages; freed after the emission */
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
bool qc_emit_assign_names(struct qc_emitter *e, struct qc_status *st);
/* Returns base_suffix, followed by a number if that name is in use. NULL and a status if memory is out. */
const char *qc_emit_fresh_name(struct qc_emitter *e, const char *base, const char *suffix, struct qc_status *st);

/* Returns the name, followed by a number if it is in use. NULL and a status if memory is out. */
const char *qc_emit_unique_name(struct qc_emitter *e, const char *name, struct qc_status *st);

/* Constants that several graphs share (emit_shared.c). Find reserves their names in the outermost graph e, whose own
   values have names. Assign names them in a body e, and adds them to the outermost graph where they are missing. */
bool qc_emit_find_shared(struct qc_emitter *e, struct qc_status *st);
bool qc_emit_assign_shared(struct qc_emitter *e, struct qc_status *st);

/* Returns the name for a node of the graph, followed by a number if another node has it. NULL: no name, or memory is
   out. */
const char *qc_emit_node_name(struct qc_emitter *e, const char *name, struct qc_status *st);

/* Carried operators (emit_carried.c). Begin reserves their names after those of ports; graph and domains add them. */
bool qc_emit_carried_graph(Onnx__GraphProto *p, struct qc_emitter *e, struct qc_status *st);
bool qc_emit_carried_domains(struct qc_emitter *e, struct qc_status *st);
bool qc_emit_carried_model(Onnx__ModelProto *m, struct qc_emitter *e, struct qc_status *st);
void qc_emit_carried_end(struct qc_emitter *e); /* after packing */

/* Adds to opset_import. For each domain the first version counts. */
bool qc_emit_domain(struct qc_emitter *e, const char *domain, int64_t version, struct qc_status *st);

bool qc_emit_append(struct qc_emitter *e, struct qc_emit_list *to, void *item, struct qc_status *st);

/* Fills a graph with initializers, nodes, and ports except captures (emit_model.c). */
bool qc_emit_graph(Onnx__GraphProto *p, struct qc_emitter *e, const struct qc_onnx_emit_options *o,
                   struct qc_status *st);
bool qc_emit_mark_used(struct qc_emitter *e, struct qc_status *st);
bool qc_emit_initializer(struct qc_emitter *e, Onnx__TensorProto *t, struct qc_status *st);

/* Messages (emit_node.c). Tensor data are borrowed, except packed elements of less than 8 bits. */
Onnx__TensorProto *qc_emit_tensor(struct qc_arena *a, const char *name, const struct qc_tensor *t,
                                  struct qc_status *st);
bool qc_emit_node(struct qc_emitter *e, const struct qc_node *n, struct qc_status *st);
bool qc_emit_identity(struct qc_emitter *e, const char *from, const char *to, struct qc_status *st);
/* Adds a copy that ONNX Runtime makes when it loads the file. It computes Identity of the outer graph later. */
bool qc_emit_copy(struct qc_emitter *e, const char *from, const char *to, int rank, struct qc_status *st);

/* Makes p a call of the function of a RoundInBlocks, which is added to the model (emit_node.c). Fails with
   QC_UNSUPPORTED if the blocks are neither along axis 1 nor along axis -1, the last one. */
#define QC_EMIT_OWN_DOMAIN "qcalib"

/* Strings of messages are not const, but never written. */
static inline char *qc_emit_text(const char *s)
{
    return (char *)(uintptr_t)s;
}
