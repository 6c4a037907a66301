// SPDX-License-Identifier: Apache-2.0
/* Inside onnx/: the state of an import. */
#pragma once

#include "base/index.h"
#include "base/words.h"
#include "graph/core/call.h"
#include "onnx/read/import.h"
#include "onnx/read/proto.h"

enum qc_name_origin { QC_FROM_INPUT, QC_FROM_INITIALIZER, QC_FROM_NODE, QC_FROM_OUTSIDE /* of a body */ };

/* A value name of the file: its origin, and its value in the graph. */
struct qc_onnx_name {
    const char *name;
    enum qc_name_origin origin;
    size_t index;               /* of the input, initializer or node */
    const char *as;             /* name in the graph: that of the graph output it is an alias of, else its own */
    size_t uses;                /* by nodes in use and by graph outputs */
    bool is_output, is_added;   /* is_added: as an output of the graph */
    bool carried;               /* its type is not supported, or the node that makes it is carried */
    struct qc_onnx_name *alias; /* the name that this one stands for; never an alias itself */
    qc_id id;                   /* 0 until it is in the graph; constants are added when they are used */
    struct qc_tensor *constant; /* NULL until read; owned */
};

/* Outer names that the subgraphs of a node read: names of the graph that contains the node, each once. */
struct qc_outer_names {
    size_t count;
    const char **names;
};

/* State of a carried node (graph/core/carried.h). */
struct qc_carry {
    bool carried, unknown; /* unknown: its own operator is not supported */
    const char *detail;    /* as in struct qc_carried_node */
};

/* A tensor by its place in the model or in a file with external data. */
struct qc_imported {
    const void *at; /* its data in the model, or the file */
    uint64_t offset;
    struct qc_tensor *tensor; /* owned */
};

/* Files with external data (import_tensor.c), and the tensors that were read. */
struct qc_external_files {
    struct qc_external_file *first;
    size_t bytes; /* total size, each file once */
    size_t read;  /* bytes of external tensors, each place, type and shape once */
    struct qc_index index;
    size_t count, capacity;
    struct qc_imported *tensors; /* id k of the index: tensors[k - 1] */
};

/* Where external data may be. */
struct qc_beside {
    const char *folder; /* NULL: nowhere */
    enum qc_follow follow;
    struct qc_external_files *files;
    struct qc_file_map *own; /* the model's file, if tensors may stay in it; else NULL */
    size_t own_bytes;
};

/* A message unpacked in addition to the model. */
struct qc_unpacked {
    ProtobufCMessage *message;
    const struct qc_unpacked *next;
};

/* The opset of a node of a function, if it differs from the model's. */
struct qc_node_opset {
    const Onnx__NodeProto *node; /* NULL: an empty slot */
    int opset;
};

struct qc_importer {
    struct qc_arena *arena; /* freed after the import */
    struct qc_graph *g;
    struct qc_beside beside;
    const struct qc_expander *expander; /* NULL: no functions */
    const Onnx__ModelProto *model;
    bool indices_for_texts; /* struct qc_import_options */
    int opset;
    const Onnx__GraphProto *proto;
    size_t name_count;
    struct qc_onnx_name *names;       /* [name_count] */
    struct qc_texts by_name;          /* numbers in names, from 1 */
    unsigned char *live;              /* [n_node]: a graph output needs it */
    struct qc_outer_names *outer;     /* [n_node] */
    unsigned depth;                   /* of the body being read; 0: the model */
    size_t *readings;                 /* number of bodies read so far in this model */
    struct qc_carry *carry;           /* [n_node]; NULL in a body */
    size_t carried_count, *carried;   /* carried nodes, producers first; room for all */
    struct qc_lines notes, warnings;  /* in the graph's arena */
    struct qc_lines unused, repeated; /* names of nodes, likewise */
    const struct qc_unpacked *unpacked;
    size_t opset_count, opset_slots; /* opset_slots is 0 or a power of two */
    struct qc_node_opset *opset_of;
};

/* Names (import_names.c). Enters inputs, initializers, node outputs and, for a body, the outer names (else NULL). Fails
   if a name is made twice or by two sources. */
bool qc_import_enter_names(struct qc_importer *im, const struct qc_outer_names *outside, struct qc_status *st);
struct qc_onnx_name *qc_import_find(const struct qc_importer *im, const char *name);    /* NULL when unknown */
struct qc_onnx_name *qc_import_resolve(const struct qc_importer *im, const char *name); /* through aliases */
/* Returns a name that no value of the file or the graph has, in the graph's arena. */
const char *qc_import_fresh_name(struct qc_importer *im, const char *base, const char *suffix, struct qc_status *st);
void qc_import_release_names(struct qc_importer *im); /* the tensors */

/* Order (import_node.c). Marks the nodes that outputs need and counts uses. Fails if no node makes a name. */
bool qc_import_mark_live(struct qc_importer *im, struct qc_status *st);
/* Adds the nodes in use to the graph, producers first. Unsupported nodes, and nodes that depend on them, are marked as
   carried. Fails on a cycle, or as a node fails. */
bool qc_import_nodes(struct qc_importer *im, struct qc_status *st);

/* Subgraphs (import_body.c). Fills im->outer. */
bool qc_import_find_outer(struct qc_importer *im, struct qc_status *st);

/* Carried operators (import_carried.c). Marks inputs and initializers of unsupported types. */
bool qc_import_carry_begin(struct qc_importer *im, struct qc_status *st);
/* Called after the model's outputs are added. Values that carried nodes read become outputs too, unused ones are
   removed, and the graph gets the carried part, if there is one. */
bool qc_import_carry_end(struct qc_importer *im, const Onnx__ModelProto *m, struct qc_status *st);

/* Adds an output of the graph (import_model.c); warns if it differs from its declaration. */
bool qc_import_add_output(struct qc_importer *im, const Onnx__ValueInfoProto *v, struct qc_status *st);

/* Files (import_tensor.c). Fills info->files from the initializers and the attributes of nodes. */
bool qc_import_files(struct qc_importer *im, struct qc_model_info *info, struct qc_status *st);

/* Tensors (import_tensor.c). *out is owned; tensors that share their place in a file are one. folder NULL: external
   data is an error. */
bool qc_import_tensor(struct qc_tensor **out, const Onnx__TensorProto *p, const struct qc_beside *beside,
                      struct qc_status *st);

/* Returns true for constant texts that are read as their indices. */
static inline bool qc_import_is_list(const struct qc_importer *im, const Onnx__TensorProto *p)
{
    return im->indices_for_texts && p->data_type == ONNX__TENSOR_PROTO__DATA_TYPE__STRING;
}

/* External data: large tensors stay in their file, which is mapped; others are read. */
bool qc_import_is_mapped(enum qc_dtype dtype, size_t bytes); /* if it is aligned and its file can be mapped */
void qc_import_release_external(struct qc_external_files *files);
/* *out: the bytes of a tensor with external data, of any type, even an unsupported one; the caller frees them. */
bool qc_import_external_bytes(uint8_t **out, size_t *size, const Onnx__TensorProto *p, const struct qc_beside *beside,
                              struct qc_status *st);
int64_t qc_import_dim(const Onnx__TensorShapeProto__Dimension *d); /* QC_FREE unless positive */
/* Returns for example "float8e4m3fn (17)", for messages. */
enum { QC_TYPE_TEXT = 48 };
const char *qc_import_type_text(char buf[QC_TYPE_TEXT], int data_type);

/* Import of one node (import_node.c). */
struct qc_operand {
    struct qc_onnx_name *name; /* a value of the file, resolved ... */
    qc_id id;                  /* ... or one made here; neither: absent */
};

enum { QC_OPERANDS_EXTRA = 8, QC_NODE_ATTRS = 32, QC_NODE_TENSORS = 32 };

struct qc_node_import {
    struct qc_importer *im;
    const char *op;    /* as in the file */
    const char *label; /* the node's name, else its first output: for messages and for names derived from it */
    const char *name;  /* the node's name or NULL */
    size_t input_count, input_capacity;
    struct qc_operand *inputs;
    size_t attr_count;
    struct qc_attr attrs[QC_NODE_ATTRS];
    size_t output_count;
    struct qc_onnx_name **outputs; /* NULL for an omitted output */
    const Onnx__NodeProto *proto;
    size_t owned_count; /* tensors of attributes and constants made here, released after the node */
    struct qc_tensor *owned[QC_NODE_TENSORS];
    bool located;            /* the status names the node already */
    struct qc_status unread; /* error of the first constant whose type was needed and that could not be read */
};

/* Attributes (import_node.c): checked against attributes.def, with defaults dropped; raw: all, unchanged. */
const struct qc_attr *qc_import_attr(const struct qc_node_import *w, const char *name);    /* NULL when absent */
bool qc_import_take_attr(struct qc_attr *out, struct qc_node_import *w, const char *name); /* found and removed? */
void qc_import_put_attr(struct qc_node_import *w, struct qc_attr a); /* replaces; a's data must outlive w */

/* Operands. */
/* Reads the initializer of a name once; no effect on other names. */
bool qc_import_read_constant(struct qc_importer *im, struct qc_onnx_name *n, struct qc_status *st);
bool qc_import_has(const struct qc_node_import *w, size_t i);
/* Returns the constant of input i, borrowed; NULL if it is absent, not a constant or cannot be read. */
const struct qc_tensor *qc_import_constant(struct qc_node_import *w, size_t i, struct qc_status *st);
/* Returns the constant of a resolved name likewise. */
const struct qc_tensor *qc_import_name_constant(struct qc_importer *im, struct qc_onnx_name *n, struct qc_status *st);
/* *out: a constant of integers as an arena array. Fails if the input is present but no constant: "axes is computed". */
bool qc_import_ints(const int64_t **out, size_t *count, struct qc_node_import *w, size_t i, const char *what,
                    struct qc_status *st);
struct qc_shape qc_import_shape(struct qc_node_import *w, size_t i); /* rank -1 when absent or unknown */
enum qc_dtype qc_import_dtype(struct qc_node_import *w, size_t i);   /* QC_NONE when absent */
void qc_import_set(struct qc_node_import *w, size_t i, qc_id id);    /* 0: absent */
bool qc_import_set_tensor(struct qc_node_import *w, size_t i, const char *suffix, struct qc_tensor *t,
                          struct qc_status *st); /* takes t; NULL fails */
bool qc_import_set_ints(struct qc_node_import *w, size_t i, const char *suffix, size_t count, const int64_t *v,
                        struct qc_status *st); /* rank 1 */
bool qc_import_set_scalar(struct qc_node_import *w, size_t i, const char *suffix, float v,
                          struct qc_status *st); /* of the float type of input 0 */
bool qc_import_output_used(const struct qc_node_import *w, size_t k);

/* Imports one node of the file; label is for messages. */
bool qc_import_node(struct qc_importer *im, const Onnx__NodeProto *p, const char *label, struct qc_status *st);
/* Returns the operator as graph/types/ops.def names it: "Conv", "com.microsoft::QGemm". ONNX Runtime's own
   QuantizeLinear and DequantizeLinear are those of ONNX opset 21. */
const char *qc_import_op_name(struct qc_importer *im, const Onnx__NodeProto *p, struct qc_status *st);
bool qc_import_op_known(const struct qc_importer *im, const char *op); /* has a row, a form or a function */

/* Functions of the model (import_inline.c). *out: its graph with each call replaced by the nodes of the function, also
   in graphs inside nodes; in the importer's arena. Fails if functions are recursive, nested too deep or give too many
   nodes, or if a call does not fit. */
bool qc_import_inline(const Onnx__GraphProto **out, struct qc_importer *im, const Onnx__ModelProto *m,
                      struct qc_status *st);
int qc_import_opset_of(const struct qc_importer *im, const Onnx__NodeProto *n); /* of its function, else the model's */
void qc_import_release_unpacked(struct qc_importer *im);

/* A form ends with one of these. They do nothing after a failure, so a form need not ask what it calls. */
bool qc_import_finish(struct qc_node_import *w, enum qc_op op,
                      struct qc_status *st); /* operands and attributes as they stand */
bool qc_import_alias(struct qc_node_import *w, size_t input, struct qc_status *st); /* output 0 is that input */
bool qc_import_become_constant(struct qc_node_import *w, struct qc_tensor *t,
                               struct qc_status *st);      /* takes t; NULL fails */
bool qc_import_become(struct qc_node_import *w, qc_id id); /* output 0 is that value */
/* Adds a helper node with one output, named after the node and suffix (NULL: it is output 0 of the node). Returns 0 and
   sets a status on failure. */
qc_id qc_import_beside(struct qc_node_import *w, enum qc_op op, const char *suffix, unsigned inputs, const qc_id *in,
                       unsigned attrs, const struct qc_attr *attr, struct qc_status *st);
qc_id qc_import_input(struct qc_node_import *w, size_t i,
                      struct qc_status *st); /* input i as a graph value; 0 absent or failed */
qc_id qc_import_enter_value(struct qc_importer *im, struct qc_onnx_name *n,
                            struct qc_status *st); /* a resolved name; 0 failed */

/* Forms: convert the operators of all opsets to the canonical one. NULL: unchanged, if graph/types/ops.def has it. */
typedef bool qc_import_form(struct qc_node_import *w, struct qc_status *st);
struct qc_import_row {
    const char *op;
    qc_import_form *form;
};
/* Each list ends with a row whose op is NULL. */
extern const struct qc_import_row qc_import_layer_forms[], qc_import_shape_forms[], qc_import_body_forms[],
    qc_import_index_forms[];
