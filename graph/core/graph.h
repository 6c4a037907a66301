// SPDX-License-Identifier: Apache-2.0
/* The graph: values, nodes, qparams.

   A graph is in static single assignment form and in topological order by construction: a node can only use existing
   values. Nodes are hash-consed: adding a node with the op, inputs, attributes and result qparams of an existing one
   returns the existing one, so nothing is duplicated. Types are inferred when a node is added. Graphs are not edited
   in place: a pass builds a new graph from an old one (graph/core/rebuild.h).

   Qparams are part of the type. A value is real or affine; an affine value stores integers q of its qparams, real =
   scale*(q - zero point). The same op row serves both (Relu of an affine value is max(q, zero point)). Qparams are
   the VARIABLES of the graph: they are bound to numbers after the graph is built, which changes the meaning of every
   value that refers to them. */
#pragma once

#include "arith/contract.h"
#include "base/arena.h"
#include "base/budget.h"
#include "graph/core/carried.h"
#include "graph/types/number_format.h"
#include "graph/types/op.h"
#include "graph/types/tensor.h"

/* Ids start at 1; 0 is "absent" (optional inputs), "failed", or real. */
typedef uint32_t qc_id;
enum { QC_ABSENT = 0, QC_REAL = 0 };

struct qc_type {
    enum qc_dtype dtype; /* storage; simulated affine values are integers held in f32 */
    struct qc_shape shape;
    qc_id qparams; /* QC_REAL, or the id of qparams */
    int axis;      /* of per-channel parameters; ignored if the qparams have one scale */
};

enum qc_attr_kind {
    QC_ATTR_INT,
    QC_ATTR_FLOAT,
    QC_ATTR_STRING,
    QC_ATTR_INTS,
    QC_ATTR_FLOATS,
    QC_ATTR_STRINGS,
    QC_ATTR_TENSOR,
    QC_ATTR_GRAPH /* a body: graph/core/body.h */
};

struct qc_attr {
    const char *name;
    enum qc_attr_kind kind;
    int64_t i;
    float f;
    const char *s;
    size_t count; /* of ints, floats or strings */
    const int64_t *ints;
    const float *floats;
    const char *const *strings;
    const struct qc_tensor *tensor;
    const struct qc_graph *graph;
};

enum qc_value_kind { QC_VALUE_INPUT, QC_VALUE_CONSTANT, QC_VALUE_RESULT };

struct qc_value {
    enum qc_value_kind kind;
    struct qc_type type;
    const char *name;                 /* NULL for values made by passes; else unique in the graph */
    const struct qc_tensor *constant; /* QC_VALUE_CONSTANT; the stored integers if the value is affine */
    qc_id node;                       /* QC_VALUE_RESULT: the node that makes it ... */
    unsigned output;                  /* ... and which of its outputs it is */
    bool apart;                       /* a constant that copies of the graph do not merge with equal ones */
};

struct qc_node {
    enum qc_op op;
    qc_id id;
    const char *name; /* original node name or NULL; need not be unique */
    unsigned input_count, output_count, attr_count;
    const qc_id *inputs;
    qc_id outputs; /* the first; the others follow */
    const struct qc_attr *attrs;
};

enum qc_qparams_kind {
    QC_QPARAMS_QUANTIZER, /* of a quantized value: calibration chooses the parameters */
    QC_QPARAMS_PRODUCT    /* of an accumulator: scale a * scale b in float32, zero point 0, int32 */
};

enum qc_qparams_state {
    QC_QPARAMS_UNBOUND, /* no parameters yet: quantize and dequantize are the identity */
    QC_QPARAMS_OFF,     /* turned off explicitly: also the identity */
    QC_QPARAMS_BOUND
};

/* Parameters that a model already has for a value or a weight. */
struct qc_given {
    enum qc_dtype dtype;
    size_t count;
    int axis;                  /* if count > 1 */
    const float *scale;        /* [count] */
    const int32_t *zero_point; /* [count] */
};

struct qc_qparams {
    enum qc_qparams_kind kind;
    enum qc_qparams_state state;
    const char *name;    /* unique: the name of its value, or "a*b" */
    qc_id a, b;          /* QC_QPARAMS_PRODUCT: its factors */
    enum qc_dtype dtype; /* of stored integers */
    bool is_weight, restricted, per_channel;
    bool in_place;                         /* quantize and dequantize do not move through other ops */
    bool power_of_two;                     /* scales are powers of two */
    bool at_load;                          /* of weights of float operators: a runtime converts them when it loads the
                                              file */
    unsigned bits;                         /* bits of the levels, if fewer than those of the type; 0: all of the type */
    const struct qc_number_format *format; /* NULL, or the format that defines levels and scales */
    int64_t block; /* elements along the value's axis that share a scale; each element of the other axes has its own
                      (graph/core/parameters.h). 0: no blocks. Only for constants that are dequantized */
    int32_t pair_limit; /* for weights: the largest sum of two neighbouring levels of one sign
                           (graph/core/pair_order.h); 0: none */
    enum qc_symmetry symmetry;
    size_t count;                 /* number of scales: 1, the channels, or those of blocks */
    const float *scale;           /* [count], positive and normal */
    const int32_t *zero_point;    /* [count], within the levels */
    const struct qc_given *given; /* NULL, or the required parameters; borrowed */
    size_t observed_count;        /* number of values whose elements together determine the range of a quantizer, ... */
    const qc_id *observed;        /* ... as ids of this graph */
};

/* How the error of an output counts (quantize/setup/setup.h). */
enum qc_judging {
    QC_JUDGED,
    QC_NOT_JUDGED, /* its rows are in an order that rounding changes */
    QC_ONLY_JUDGED /* stands for such an output; no output of the file; behind all others */
};

struct qc_port {
    qc_id value;
    const char *name;                /* of the graph's interface; for an output it may differ from the value's name */
    const char *symbol[QC_RANK_MAX]; /* names of free dimensions as in the model file, or NULL */
    const struct qc_shape *declared; /* of an output whose rank the ops do not determine: as in the file, or NULL */
    enum qc_judging judging;
    float scale; /* above 0: --io-type made integers of real numbers, (q - zero_point) * scale */
    int32_t zero_point;
    const char *pixels; /* NULL, or the bytes of an image: preprocessing in the file, as in --preprocess */
    bool channels_last; /* of such an image, unlike in the model */
};

struct qc_custom_ops;
struct qc_source_call;

struct qc_graph {
    struct qc_arena *arena;
    const char *name;
    int opset;                    /* of the model file; 0 if built by hand */
    bool external_data;           /* the model's weights are in separate files */
    bool overridable;             /* constants of the model file are inputs too, whose values a caller may replace */
    bool spills;                  /* large constants are moved to temporary files when added (qc_tensor_spill) */
    struct qc_budget budget;      /* limits of the stages that use the graph; graphs made from it have the same */
    bool simulated;               /* affine values are held in f32 (op names print with a "simulated_" prefix) */
    bool integer_operators;       /* its products are QLinear operators in the file, which keep int8 data as int8 */
    struct qc_carried *carried;   /* NULL, or the part of the model outside the graph; shared by graphs made from it */
    struct qc_custom_ops *custom; /* NULL, or user-defined kernels (graph/core/custom.h); shared likewise */
    size_t value_count, node_count, qparams_count; /* ids 1..count */
    struct qc_value *values;                       /* [value_count + 1] */
    struct qc_node *nodes;                         /* [node_count + 1], topological order */
    struct qc_qparams *qparams_of;                 /* [qparams_count + 1] */
    size_t input_count, output_count;
    struct qc_port *inputs, *outputs;
    size_t call_count;                  /* operators of the file that the graph holds as their functions */
    struct qc_source_call *calls;       /* [call_count]; graph/core/source_call.h */
    struct qc_graph_tables *tables;     /* hash tables and capacities */
    unsigned depth;                     /* of nested bodies: 0 without any */
    const struct qc_graph *shaped_from; /* the body it was made from with more shapes known; only compared */
    _Atomic unsigned references;        /* passes share a body between graphs */
};

struct qc_graph *qc_graph_new(struct qc_status *st);
/* Adds an owner. A shared graph (the body of a node) is not changed any more. */
struct qc_graph *qc_graph_ref(const struct qc_graph *g);
void qc_graph_free(struct qc_graph *g); /* NULL-safe; the last owner frees it */
/* A graph, or NULL, that is freed at the end of its scope (see base/scope.h). */
#define QC_GRAPH_SCOPE __attribute__((cleanup(qc_graph_leave), unused)) struct qc_graph
void qc_graph_leave(struct qc_graph *const *g);

/* Returns the memory of the graph itself in bytes: values, nodes, names, hash tables; without constants and bodies. */
size_t qc_graph_bytes(const struct qc_graph *g);

/* Returns the memory that a constant of `bytes` bytes takes: 0 if it is moved to a file. */
size_t qc_graph_held_bytes(const struct qc_graph *g, size_t bytes);

/* All adders return an id, or 0 with a status. Strings are copied, tensors referenced. If a name is already used, a
   suffix "_1", "_2", ... is added. */
qc_id qc_graph_add_input(struct qc_graph *g, const char *name, enum qc_dtype dtype, const struct qc_shape *shape,
                         struct qc_status *st);
/* Fixes the shape of input i. Fails if the shape is not fixed or contradicts the one that the model declares. */
bool qc_graph_fix_input(struct qc_graph *g, size_t i, const struct qc_shape *shape, struct qc_status *st);
/* Equal constants (dtype, shape, bytes) are one value, which keeps the first name. If the graph spills, a large one
   is kept in a temporary file instead of t. */
qc_id qc_graph_add_constant(struct qc_graph *g, const char *name, const struct qc_tensor *t, struct qc_status *st);
/* The same for a tensor made for it, which this function releases. t may be NULL: then it returns 0. */
qc_id qc_graph_add_made_constant(struct qc_graph *g, const char *name, struct qc_tensor *t, struct qc_status *st);
/* Adds an unnamed Cast; returns v if it has the type, or is 0. */
qc_id qc_graph_cast(struct qc_graph *g, qc_id v, enum qc_dtype dtype, struct qc_status *st);
/* Makes a new value even if an equal constant exists; a rebuilt graph has it too. */
qc_id qc_graph_add_constant_apart(struct qc_graph *g, const char *name, const struct qc_tensor *t,
                                  struct qc_status *st);
/* Adds stored integers of bound qparams: real = scale*(q - zero point), per channel along `axis`. The tensor has the
   type of the qparams and always holds the integers; the value's type is the graph's type for affine values (f32 in
   a simulated graph). Fails with QC_BAD_INPUT if the qparams are unbound, the type differs, the axis does not fit,
   or integers are outside the levels. */
qc_id qc_graph_add_affine_constant(struct qc_graph *g, const char *name, const struct qc_tensor *t, qc_id qparams,
                                   int axis, struct qc_status *st);
bool qc_graph_add_output(struct qc_graph *g, const char *name, qc_id value, struct qc_status *st);
/* Adds an input like that of another graph, with its declaration in the file: names of dimensions, shape. */
qc_id qc_graph_add_input_like(struct qc_graph *g, const struct qc_port *like, enum qc_dtype dtype,
                              const struct qc_shape *shape, struct qc_status *st);

struct qc_node_def {
    enum qc_op op;
    const char *name;
    unsigned input_count, output_count; /* output_count 0 means 1 */
    const qc_id *inputs;
    unsigned attr_count;
    const struct qc_attr *attrs;
    const char *const *output_names; /* NULL, or output_count names, each may be NULL */
    qc_id qparams; /* result qparams of Quantize, Requantize and of merging ops (Add, ...) over affine inputs; else 0 */
    int axis;      /* axis of those qparams in the result */
};

/* A definition in one expression: QC_NODE(QC_OP_Clip, QC_INPUTS(x, low), QC_RESULT("y")). */
#define QC_NODE(op_, ...) (&(const struct qc_node_def){.op = (op_), __VA_ARGS__})
#define QC_INPUTS(...)                                                                                                 \
    .inputs = (const qc_id[]){__VA_ARGS__}, .input_count = sizeof((qc_id[]){__VA_ARGS__}) / sizeof(qc_id)
#define QC_ATTRS(...)                                                                                                  \
    .attrs = (const struct qc_attr[]){__VA_ARGS__},                                                                    \
    .attr_count = sizeof((struct qc_attr[]){__VA_ARGS__}) / sizeof(struct qc_attr)
#define QC_RESULT(name_)                                                                                               \
    .output_names = (const char *const[])                                                                              \
    {                                                                                                                  \
        name_                                                                                                          \
    }

/* Adds a node (or finds an equal one) and infers the types of its outputs. Returns the id of the first output;
   output k is id + k. Fails with QC_BAD_INPUT if arity, types or shapes are wrong, QC_UNSUPPORTED if the node is not
   supported; the message names op and node.
   A failure is held by st: whatever adds to a graph or rebuilds one then does nothing and returns 0, so that a pass
   asks for st->code once, at its end. Value 0 of a graph and its node 0 are zeroed and may be read. */
qc_id qc_graph_add(struct qc_graph *g, const struct qc_node_def *def, struct qc_status *st);

/* Returns `name` if no value has it, else with the first free suffix, "name_1". The graph owns the string. Returns
   NULL if out of memory. */
const char *qc_graph_free_name(struct qc_graph *g, const char *name, struct qc_status *st);

/* Names an unnamed value; does nothing if name is NULL, the value is 0 or it has a name. */
bool qc_graph_name_value(struct qc_graph *g, qc_id value, const char *name, struct qc_status *st);

/* Adds qparams. A quantizer has the name of its value; a second request for a name returns the same qparams. */
qc_id qc_graph_add_quantizer(struct qc_graph *g, const struct qc_qparams *def, struct qc_status *st);
/* Returns the quantizer of this name; 0 if there is none. */
qc_id qc_graph_find_quantizer(const struct qc_graph *g, const char *name);
qc_id qc_graph_add_product(struct qc_graph *g, qc_id a, qc_id b, struct qc_status *st);
/* Binds a quantizer (copies the arrays) and derives all its products again. Fails if a scale is not positive, normal
   and finite, or if a zero point is outside the type. */
bool qc_graph_bind_quantizer(struct qc_graph *g, qc_id quantizer, size_t count, const float *scale,
                             const int32_t *zero_point, struct qc_status *st);
void qc_graph_turn_off_quantizer(struct qc_graph *g, qc_id quantizer);
bool qc_graph_set_observed(struct qc_graph *g, qc_id quantizer, size_t count, const qc_id *values,
                           struct qc_status *st);
/* Returns the qparams of an affine value with bound parameters, else NULL. */
const struct qc_qparams *qc_graph_parameters(const struct qc_graph *g, qc_id value);
struct qc_levels qc_qparams_levels(const struct qc_qparams *s);
/* Returns the type of the tensors that hold levels: the type of the qparams. Small floats, whose levels no integer
   kernel accepts, are held in float32. */
enum qc_dtype qc_qparams_storage(const struct qc_qparams *s);
/* Returns the levels from which the scales of weights are chosen. Symmetric unsigned weights have zero point 128
   (the middle of uint8) in every channel, so their levels are counted from there: ONNX Runtime has fused kernels for
   a single zero point per weight. Other qparams: qc_qparams_levels. */
struct qc_levels qc_levels_around_zero(const struct qc_qparams *s);
bool qc_qparams_are_few(const struct qc_qparams *s); /* at most 16 levels, those of four bits */

/* The nodes of a graph in order, and from the last one back. */
#define QC_EACH_NODE(n, g)                                                                                             \
    for (const struct qc_node *n = (g)->nodes + 1, *const n##_end = n + (g)->node_count; n < n##_end; n++)
#define QC_EACH_NODE_BACK(n, g) for (const struct qc_node *n = (g)->nodes + (g)->node_count; n > (g)->nodes; n--)

/* Look-ups. */
static inline const struct qc_value *qc_value(const struct qc_graph *g, qc_id v)
{
    return &g->values[v];
}
static inline const struct qc_node *qc_node_of(const struct qc_graph *g, qc_id v)
{
    return g->values[v].kind == QC_VALUE_RESULT ? &g->nodes[g->values[v].node] : NULL;
}
/* Returns the tensor of a constant, or NULL. For an affine constant it holds the stored integers: check
   type.qparams. */
static inline const struct qc_tensor *qc_constant_of(const struct qc_graph *g, qc_id v)
{
    return v ? g->values[v].constant : NULL;
}
qc_id qc_graph_find_value(const struct qc_graph *g, const char *name); /* 0 if there is none */
/* Returns a name for messages and reports: the value's own, or "%17". */
enum { QC_LABEL = 256 };
const char *qc_value_label(char buf[QC_LABEL], const struct qc_graph *g, qc_id v);
/* The same for a node: its own name, or that of its first result. qc_node_name copies it into the arena. */
const char *qc_node_label(char buf[QC_LABEL], const struct qc_graph *g, const struct qc_node *n);
/* The same, valid until the end of the block. */
#define QC_VALUE_LABEL(g, v) qc_value_label((char[QC_LABEL]){""}, g, v)
#define QC_NODE_LABEL(g, n) qc_node_label((char[QC_LABEL]){""}, g, n)
const char *qc_node_name(const struct qc_graph *g, const struct qc_node *n, struct qc_arena *a, struct qc_status *st);
/* Returns use[v] = number of uses of value v by nodes and outputs: an array [value_count + 1] in arena a. Returns
   NULL and a status if out of memory. */
uint32_t *qc_graph_uses(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Copies attributes to an array [count] in the arena; tensors and bodies are referenced. */
bool qc_attrs_copy(struct qc_attr *to, const struct qc_attr *from, unsigned count, struct qc_arena *a,
                   struct qc_status *st);
bool qc_attr_equal(const struct qc_attr *a, const struct qc_attr *b);
/* Attributes by name, with defaults. */
const struct qc_attr *qc_attr_find(const struct qc_node *n, const char *name); /* NULL if absent */
int64_t qc_attr_int(const struct qc_node *n, const char *name, int64_t otherwise);
float qc_attr_float(const struct qc_node *n, const char *name, float otherwise);
const char *qc_attr_string(const struct qc_node *n, const char *name, const char *otherwise);
/* Returns the number of ints (0 if absent); *out is borrowed. */
size_t qc_attr_ints(const struct qc_node *n, const char *name, const int64_t **out);

/* Returns how a node behaves on affine values: as its op, except that Resize by nearest neighbours only copies
   elements (KEEP) unless it crops and pads. */
enum qc_affine_behaviour qc_node_affine(const struct qc_node *n);

/* Returns the axis of a result of shape y that corresponds to axis `in` of a node's first input, of shape x:
   elements keep their parameters along it, in order. Returns -1 if the op splits, reverses or merges that axis. For
   ops that parameters pass through (KEEP, BOUND, JOIN). */
int qc_kept_axis(const struct qc_graph *g, const struct qc_node *n, const struct qc_shape *x, const struct qc_shape *y,
                 int in);

#define QC_INT(n, v) ((struct qc_attr){.name = (n), .kind = QC_ATTR_INT, .i = (v)})
#define QC_FLOAT(n, v) ((struct qc_attr){.name = (n), .kind = QC_ATTR_FLOAT, .f = (v)})
#define QC_STRING(n, v) ((struct qc_attr){.name = (n), .kind = QC_ATTR_STRING, .s = (v)})
#define QC_INTS(n, c, v) ((struct qc_attr){.name = (n), .kind = QC_ATTR_INTS, .count = (c), .ints = (v)})

/* Returns the value that provides the name: v itself, or the input of unnamed Quantize and Dequantize nodes. */
qc_id qc_value_named(const struct qc_graph *g, qc_id v);

/* Returns the name, which identifies the value. An unnamed Quantize or Dequantize has the name of its input (with
   unbound qparams they are equal). A value without any name has its label, in the arena. */
const char *qc_value_name(const struct qc_graph *g, qc_id v, struct qc_arena *a, struct qc_status *st);
