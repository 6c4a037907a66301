// SPDX-License-Identifier: Apache-2.0
/* The graph: values, nodes, quantization qparams.

   A graph is in static single assignment form and in topological order by construction: a node can only use values that
   exist. Nodes are hash-consed: adding a node with the same op, inputs, attributes and result qparams as an existing
   one gives the existing one, so nothing is ever duplicated. Types are inferred as a node is added. Graphs are not
   edited in place: a pass builds a new graph from an old one (graph/core/rebuild.h).

   Qparams are part of the type. A value is real, or affine: it then stores integers q of its qparams, real = scale*(q -
   zero point). The same op row serves both (Relu of an affine value is max(q, zero point)). Qparams are the VARIABLES
   of the graph: they are bound to numbers after the graph is built, and every value that refers to them changes
   meaning. */
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
    int axis;      /* of per-channel parameters; meaningless when the qparams have one scale */
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
    const char *name;                 /* NULL for values that passes made; else unique in the graph */
    const struct qc_tensor *constant; /* QC_VALUE_CONSTANT; of an affine one the stored integers */
    qc_id node;                       /* QC_VALUE_RESULT: the node that makes it ... */
    unsigned output;                  /* ... and which of its outputs it is */
};

struct qc_node {
    enum qc_op op;
    const char *name; /* original node name or NULL; need not be unique */
    unsigned input_count, output_count, attr_count;
    const qc_id *inputs;
    qc_id outputs; /* the first; the others follow */
    const struct qc_attr *attrs;
};

enum qc_qparams_kind {
    QC_QPARAMS_QUANTIZER, /* of a value to be quantized: parameters are chosen */
    QC_QPARAMS_PRODUCT    /* of an accumulator: scale a * scale b in float32, zero point 0, int32 */
};

enum qc_qparams_state {
    QC_QPARAMS_UNBOUND, /* no parameters yet: quantize and dequantize are the identity */
    QC_QPARAMS_OFF,     /* turned off on purpose: identity too */
    QC_QPARAMS_BOUND
};

/* Parameters that a model has already, as those of a value or a weight. */
struct qc_given {
    enum qc_dtype dtype;
    size_t count;
    int axis;                  /* of several */
    const float *scale;        /* [count] */
    const int32_t *zero_point; /* [count] */
};

struct qc_qparams {
    enum qc_qparams_kind kind;
    enum qc_qparams_state state;
    const char *name;    /* unique: the name of the value it was made for, or "a*b" */
    qc_id a, b;          /* QC_QPARAMS_PRODUCT: its factors */
    enum qc_dtype dtype; /* of stored integers */
    bool is_weight, restricted, per_channel;
    bool power_of_two; /* so are its scales */
    unsigned bits;     /* of the levels, where they are fewer than those of the type; 0: all of the type */
    const struct qc_number_format *format; /* NULL, or what says which levels and scales there are */
    int64_t block; /* so many elements along the value's axis share a scale, and each element of the other axes has its
                      own (graph/core/scale_layout.h); 0: no blocks. Only constants, which are dequantized */
    int32_t pair_limit; /* of weights: the largest sum of two neighbouring levels of one sign
                           (graph/core/pair_order.h); 0: none */
    enum qc_symmetry symmetry;
    size_t count;                 /* number of scales: 1, the channels, or those of blocks */
    const float *scale;           /* [count], positive and normal */
    const int32_t *zero_point;    /* [count], inside the levels */
    const struct qc_given *given; /* NULL, or what the parameters have to be; borrowed */
    size_t observed_count;        /* the values whose union of elements decides the range of a quantizer, ... */
    const qc_id *observed;        /* ... as ids of this graph */
};

struct qc_port {
    qc_id value;
    const char *name;                /* of the graph's interface; for an output it may differ from the value's name */
    const char *symbol[QC_RANK_MAX]; /* names of free dimensions as in the model file, or NULL */
    const struct qc_shape *declared; /* of an output whose rank does not follow from the ops: as in the file, or NULL */
};

struct qc_custom_ops;

struct qc_graph {
    struct qc_arena *arena;
    const char *name;
    int opset;                    /* of the model it came from; 0 when built by hand */
    bool external_data;           /* of the model it came from: its weights are in files beside it */
    bool spills;                  /* large constants that are added go to temporary files (qc_tensor_spill) */
    struct qc_budget budget;      /* what stages that work on it may take; graphs made from it have the same */
    bool simulated;               /* affine values are held in f32 (op names print with a "simulated_" prefix) */
    bool integer_operators;       /* its products are QLinear operators in the file, which keep the type of int8 data */
    struct qc_carried *carried;   /* NULL, or what of the model is not in the graph; shared by graphs made from it */
    struct qc_custom_ops *custom; /* NULL, or the kernels of the user's own (graph/core/custom.h); shared likewise */
    size_t value_count, node_count, qparams_count; /* ids 1..count */
    struct qc_value *values;                       /* [value_count + 1] */
    struct qc_node *nodes;                         /* [node_count + 1], topological order */
    struct qc_qparams *qparams_of;                 /* [qparams_count + 1] */
    size_t input_count, output_count;
    struct qc_port *inputs, *outputs;
    struct qc_graph_tables *tables;     /* hash tables and capacities */
    unsigned depth;                     /* of bodies within bodies: 0 without any */
    const struct qc_graph *shaped_from; /* the body that this is with more shapes known; to be compared only */
    _Atomic unsigned references;        /* a body is shared by the graphs that passes make */
};

struct qc_graph *qc_graph_new(struct qc_status *st);
/* One more owner. A graph that is shared (the body of a node) is not changed any more. */
struct qc_graph *qc_graph_ref(const struct qc_graph *g);
void qc_graph_free(struct qc_graph *g); /* NULL-safe; the last owner frees */

/* Bytes of memory of the graph itself: values, nodes, names, hash tables; without constants and bodies. */
size_t qc_graph_bytes(const struct qc_graph *g);

/* Bytes of memory that a constant of so many bytes takes: none where it goes to a file. */
size_t qc_graph_held_bytes(const struct qc_graph *g, size_t bytes);

/* All adders return an id, or 0 with a status. Strings are copied, tensors referenced. A name that is taken already
 * gets a suffix "_1", "_2", ... */
qc_id qc_graph_add_input(struct qc_graph *g, const char *name, enum qc_dtype dtype, const struct qc_shape *shape,
                         struct qc_status *st);
/* Equal constants (dtype, shape, bytes) are one value; the first name stays. Where the graph spills, a large one is
   kept in a temporary file instead of t. */
qc_id qc_graph_add_constant(struct qc_graph *g, const char *name, const struct qc_tensor *t, struct qc_status *st);
/* A value of its own even where an equal constant exists. */
qc_id qc_graph_add_constant_apart(struct qc_graph *g, const char *name, const struct qc_tensor *t,
                                  struct qc_status *st);
/* Stored integers of bound qparams: real = scale*(q - zero point), per channel along `axis`. The tensor is of the
   qparams' type; the value's type is the graph's storage of affine values (f32 in a simulated graph), its tensor holds
   the integers all the same. Errors (QC_BAD_INPUT): qparams unbound, another type, an axis that does not fit, integers
   outside the levels. */
qc_id qc_graph_add_affine_constant(struct qc_graph *g, const char *name, const struct qc_tensor *t, qc_id qparams,
                                   int axis, struct qc_status *st);
bool qc_graph_add_output(struct qc_graph *g, const char *name, qc_id value, struct qc_status *st);

struct qc_node_def {
    enum qc_op op;
    const char *name;
    unsigned input_count, output_count; /* output_count 0 means 1 */
    const qc_id *inputs;
    unsigned attr_count;
    const struct qc_attr *attrs;
    const char *const *output_names; /* NULL, or output_count names, each may be NULL */
    qc_id qparams; /* result qparams of Quantize, Requantize and of merging ops (Add, ...) over affine inputs; else 0 */
    int axis;      /* of those qparams' parameters in the result */
};

/* Adds a node (or finds its equal) and infers the types of its outputs. Returns the id of the first output; output k is
   id + k. Errors name op and node: wrong arity, types or shapes that do not fit (QC_BAD_INPUT), what is not handled
   (QC_UNSUPPORTED). */
qc_id qc_graph_add(struct qc_graph *g, const struct qc_node_def *def, struct qc_status *st);

/* `name` if no value has it, or else with the first number behind it that is free, "name_1". The graph's; NULL: memory
   is out. */
const char *qc_graph_free_name(struct qc_graph *g, const char *name, struct qc_status *st);

/* Names a value that has no name yet; does nothing when name is NULL or the value is named. */
bool qc_graph_name_value(struct qc_graph *g, qc_id value, const char *name, struct qc_status *st);

/* Qparams. A quantizer's name is that of the value; asking again for the same name gives the same qparams. */
qc_id qc_graph_add_quantizer(struct qc_graph *g, const struct qc_qparams *def, struct qc_status *st);
/* The quantizer of this name; 0: there is none. */
qc_id qc_graph_find_quantizer(const struct qc_graph *g, const char *name);
qc_id qc_graph_add_product(struct qc_graph *g, qc_id a, qc_id b, struct qc_status *st);
/* Binds a quantizer (copies the arrays) and re-derives every product of it. Errors: scale not positive, normal and
 * finite; zero point outside the type. */
bool qc_graph_bind_quantizer(struct qc_graph *g, qc_id quantizer, size_t count, const float *scale,
                             const int32_t *zero_point, struct qc_status *st);
void qc_graph_turn_off_quantizer(struct qc_graph *g, qc_id quantizer);
bool qc_graph_set_observed(struct qc_graph *g, qc_id quantizer, size_t count, const qc_id *values,
                           struct qc_status *st);
/* Affine with bound parameters? The one question every pass and exporter asks of any value. */
const struct qc_qparams *qc_graph_parameters(const struct qc_graph *g, qc_id value);
struct qc_levels qc_qparams_levels(const struct qc_qparams *s);
/* The type of the tensors that hold levels: that of the qparams, and of small floats, whose levels no kernel of
   integers takes, float32. */
enum qc_dtype qc_qparams_storage(const struct qc_qparams *s);
/* Levels from which scales of weights are chosen. Symmetric weights without a sign have their zero point in the middle,
   128 of uint8, in every channel, so their levels are counted from there: ONNX Runtime has fused kernels for one zero
   point of a whole weight. Other qparams: qc_qparams_levels. */
struct qc_levels qc_levels_around_zero(const struct qc_qparams *s);
bool qc_qparams_are_few(const struct qc_qparams *s); /* levels: at most 16, those of four bits */

/* Look-ups. */
static inline const struct qc_value *qc_value(const struct qc_graph *g, qc_id v)
{
    return &g->values[v];
}
static inline const struct qc_node *qc_node_of(const struct qc_graph *g, qc_id v)
{
    return g->values[v].kind == QC_VALUE_RESULT ? &g->nodes[g->values[v].node] : NULL;
}
/* The tensor of a constant, or NULL. Of an affine constant these are the stored integers: ask for type.qparams. */
static inline const struct qc_tensor *qc_constant_of(const struct qc_graph *g, qc_id v)
{
    return v ? g->values[v].constant : NULL;
}
qc_id qc_graph_find_value(const struct qc_graph *g, const char *name); /* 0 when there is none */
/* Name for messages and reports: the value's own, or "%17". */
enum { QC_LABEL = 256 };
const char *qc_value_label(char buf[QC_LABEL], const struct qc_graph *g, qc_id v);
/* use[v] = number of uses of value v by nodes and outputs; array [value_count + 1] from arena a. NULL and a status when
 * memory is out. */
uint32_t *qc_graph_uses(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);

/* Attributes by name, with defaults. */
const struct qc_attr *qc_attr_find(const struct qc_node *n, const char *name); /* NULL when absent */
int64_t qc_attr_int(const struct qc_node *n, const char *name, int64_t otherwise);
float qc_attr_float(const struct qc_node *n, const char *name, float otherwise);
const char *qc_attr_string(const struct qc_node *n, const char *name, const char *otherwise);
/* Number of ints (0 when absent); *out borrowed. */
size_t qc_attr_ints(const struct qc_node *n, const char *name, const int64_t **out);

/* How a node behaves on affine values: as its op, but that Resize by nearest neighbours only copies elements (KEEP),
 * unless it crops and pads. */
enum qc_affine_behaviour qc_node_affine(const struct qc_node *n);

/* The elements of a node's first input have one of several parameters along axis `in`: the axis of a result of shape y
   along which they have them then, all in their places. -1 where they would be torn apart, turned round, or joined by
   others. x: the shape of the first input. For ops that parameters pass through (KEEP, BOUND, JOIN). */
int qc_kept_axis(const struct qc_graph *g, const struct qc_node *n, const struct qc_shape *x, const struct qc_shape *y,
                 int in);

#define QC_INT(n, v) ((struct qc_attr){.name = (n), .kind = QC_ATTR_INT, .i = (v)})
#define QC_FLOAT(n, v) ((struct qc_attr){.name = (n), .kind = QC_ATTR_FLOAT, .f = (v)})
#define QC_STRING(n, v) ((struct qc_attr){.name = (n), .kind = QC_ATTR_STRING, .s = (v)})
#define QC_INTS(n, c, v) ((struct qc_attr){.name = (n), .kind = QC_ATTR_INTS, .count = (c), .ints = (v)})
