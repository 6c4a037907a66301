// SPDX-License-Identifier: Apache-2.0
/* Internal to tflite/write: state of the export of a graph to a TensorFlow Lite model. */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/uses.h"
#include "tflite/flatbuffer/flatbuffer_build.h"
#include "tflite/schema/tflite_schema.h"

/* Order of the axes of a tensor: as in the graph, or channels last. */
enum qc_tfl_order { QC_TFL_PLAIN, QC_TFL_LAST, QC_TFL_ORDERS };

/* Tensor 0 stands for an absent one, or one that could not be made. It is not in the file. */
enum { QC_TFL_NO_TENSOR = 0, QC_TFL_OPERANDS = 256 };

/* A tensor of the file. */
struct qc_tfl_tensor {
    const char *name;
    enum qc_dtype dtype;
    struct qc_shape shape; /* in the file's order */
    size_t scale_count;    /* 0: no qparams */
    const float *scale;
    const int32_t *zero_point;
    int axis;          /* axis of the scales if there are several */
    int block, scales; /* weights in blocks: size of a block along the last axis, tensor of the scales; block 0: none */
    const void *data;  /* data of a constant, in the arena or the graph; otherwise NULL */
};

struct qc_tfl_node_out {
    enum qc_tfl_operator code;
    int version;
    unsigned input_count, output_count;
    int *ends; /* inputs, then outputs; the two pointers below point into it */
    const int *inputs, *outputs;
    struct qc_fb_object *options; /* NULL: none */
};

struct qc_tfl_writer {
    struct qc_status *st;   /* the first failure; after it, functions do nothing, so that callers need not check */
    struct qc_arena *arena; /* freed at the end of the export */
    const struct qc_graph *g;
    struct qc_uses uses;
    struct qc_fb_builder *builder;
    size_t tensor_count, tensor_capacity;
    struct qc_tfl_tensor *tensors;
    size_t node_count, node_capacity;
    struct qc_tfl_node_out *nodes;
    unsigned char *order;     /* [value_count + 1] order in which a value is computed */
    int *made[QC_TFL_ORDERS]; /* [value_count + 1] its tensor in that order, or NO_TENSOR */
    bool *flat;               /* [value_count + 1] rows of a flattened tensor whose channels are last */
    bool *done;               /* [node_count + 1] nodes that are fused into an earlier operator */
    size_t refused_count, refused_capacity;
    const char **refused; /* messages */
};

/* --- Tensors (write_tensors.c) --- */

/* Chooses the order of all values. */
bool qc_tfl_out_choose_orders(struct qc_tfl_writer *w);

/* Returns the axis of the tensor that corresponds to axis `axis` of a value of this rank. */
int qc_tfl_out_axis(int axis, int rank, enum qc_tfl_order order);
struct qc_shape qc_tfl_out_shape(const struct qc_shape *s, enum qc_tfl_order order);

/* Adds a tensor and returns its index. This function and those below return NO_TENSOR on failure. */
int qc_tfl_out_add_tensor(struct qc_tfl_writer *w, const struct qc_tfl_tensor *t);
/* Returns the tensor of a value in an order; adds TRANSPOSE or RESHAPE if it is computed in the other one. */
int qc_tfl_out_tensor_of(struct qc_tfl_writer *w, qc_id v, enum qc_tfl_order order);
/* The same for an operand that is broadcast to `rank` axes. */
int qc_tfl_out_operand(struct qc_tfl_writer *w, qc_id v, int rank, enum qc_tfl_order order);
/* Returns the tensor that an operator writes v to; adds it if there is none. */
int qc_tfl_out_result(struct qc_tfl_writer *w, qc_id v);
/* Adds a tensor like that of v, with another shape and name. */
int qc_tfl_out_like(struct qc_tfl_writer *w, qc_id v, const struct qc_shape *shape, const char *suffix);
/* True if the axes longer than 1 keep their order. Axis i of the result is axis perm[i]. */
bool qc_tfl_out_keeps_order(const struct qc_shape *s, const int *perm);
/* Adds a TRANSPOSE, or a RESHAPE if no element moves. */
bool qc_tfl_out_permute(struct qc_tfl_writer *w, int from, const int *perm, int to);
/* From plain order to channels last. */
bool qc_tfl_out_permute_last(struct qc_tfl_writer *w, int from, int to);
/* Writes the elements of `from`, those of v in plain order, into the tensor of v. */
bool qc_tfl_out_put_plain(struct qc_tfl_writer *w, qc_id v, int from);
/* Returns the tensor of constant v in shape `view`, permuted: axis i of the result is axis perm[i]. scale_axis: axis of
   the result for several scales. */
int qc_tfl_out_constant(struct qc_tfl_writer *w, qc_id v, const struct qc_shape *view, const int *perm, int scale_axis);
/* Adds a tensor of another type, made by a CAST; the tensor itself if it has the type. */
int qc_tfl_out_cast(struct qc_tfl_writer *w, int tensor, enum qc_dtype type);
int qc_tfl_out_ints(struct qc_tfl_writer *w, const int64_t *values, size_t count, const char *name);
int qc_tfl_out_int_table(struct qc_tfl_writer *w, const int64_t *values, size_t rows, size_t columns, const char *name);

/* --- Operators (write_nodes.c) --- */

/* options: NULL for the operator's defaults. */
bool qc_tfl_out_add_node(struct qc_tfl_writer *w, enum qc_tfl_operator code, unsigned input_count, const int *inputs,
                         int output, struct qc_fb_object *options);
/* The same with a version that does not follow from the types of the operands. */
bool qc_tfl_out_add_versioned(struct qc_tfl_writer *w, enum qc_tfl_operator code, int version, unsigned input_count,
                              const int *inputs, int output, struct qc_fb_object *options);
/* Adds a second output to the last node. */
bool qc_tfl_out_add_output(struct qc_tfl_writer *w, int output);
/* STRIDED_SLICE; whole: axes that are taken whole, one bit each. */
bool qc_tfl_out_slice(struct qc_tfl_writer *w, int x, int y, const int64_t *begin, const int64_t *end,
                      const int64_t *stride, int64_t whole);
bool qc_tfl_out_reshape(struct qc_tfl_writer *w, int from, int to);
/* Adds the constant `value`, a scalar in the type and with the parameters of a tensor. */
int qc_tfl_out_number_like(struct qc_tfl_writer *w, int tensor, float value, const char *suffix);
/* Returns an operator's options to be filled; NULL if it has none. */
struct qc_fb_object *qc_tfl_out_options(struct qc_tfl_writer *w, enum qc_tfl_operator code);

/* Records why a node cannot be written. Returns true, so that the other nodes are checked too. */
bool qc_tfl_out_refuse(struct qc_tfl_writer *w, const struct qc_node *n, const char *fmt, ...) QC_PRINTF(3, 4);

/* Fuses the clamp that is the only reader of *v as the operator's activation, if it is one: *v becomes the result of
   the clamp, and the clamp is marked done. */
enum qc_tfl_activation qc_tfl_out_take_clamp(qc_id *v, struct qc_tfl_writer *w);

/* Returns the operand of a Mul beside v; 0: n is no Mul. */
qc_id qc_tfl_out_other_factor(const struct qc_node *n, qc_id v);

/* Returns the first runtime that has a version of an operator. */
const char *qc_tfl_out_runtime_of(enum qc_tfl_operator code, int version);

/* Writes a node of the graph. Fails with a status. */
typedef bool qc_tfl_writes(struct qc_tfl_writer *w, const struct qc_node *n);
qc_tfl_writes qc_tfl_write_product, qc_tfl_write_pool, qc_tfl_write_mean, qc_tfl_write_requantize, qc_tfl_write_binary,
    qc_tfl_write_unary, qc_tfl_write_clamp, qc_tfl_write_concat, qc_tfl_write_shape, qc_tfl_write_transpose,
    qc_tfl_write_slice, qc_tfl_write_split, qc_tfl_write_pad, qc_tfl_write_resize, qc_tfl_write_depth,
    qc_tfl_write_softmax, qc_tfl_write_convert, qc_tfl_write_linear, qc_tfl_write_compare, qc_tfl_write_cast,
    qc_tfl_write_gather, qc_tfl_write_erf, qc_tfl_write_layer_norm, qc_tfl_write_instance_norm, qc_tfl_write_batch_norm,
    qc_tfl_write_composed, qc_tfl_write_repeat, qc_tfl_write_sizes, qc_tfl_write_fill, qc_tfl_write_reduced,
    qc_tfl_write_arg, qc_tfl_write_topk, qc_tfl_write_gather_elements, qc_tfl_write_dynamic, qc_tfl_write_nothing;

/* How an operator of the graph is written. */
struct qc_tfl_write_row {
    qc_tfl_writes *writes; /* NULL: it is not */
    enum {
        QC_TFL_OWN,       /* the function decides */
        QC_TFL_ANY,       /* it works in any order of axes, the same for inputs and results */
        QC_TFL_LAST_ONLY, /* TensorFlow Lite has it only for channels last */
    } order;
    enum qc_tfl_operator code; /* of functions that write several operators */
    bool integers;             /* it has a kernel for stored integers of any qparams */
};
const struct qc_tfl_write_row *qc_tfl_write_row(enum qc_op op);

/* Writes the product and its requantization to `result`. */
bool qc_tfl_write_accumulator(struct qc_tfl_writer *w, const struct qc_node *n, qc_id result);
