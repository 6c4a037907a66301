// SPDX-License-Identifier: Apache-2.0
/* Inside tflite/write: a TensorFlow Lite model on its way out of a graph. */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/uses.h"
#include "tflite/flatbuffer/flatbuffer_build.h"
#include "tflite/schema/tflite_schema.h"

/* Order of the axes of a tensor: as in the graph, or with the channels behind all others. */
enum qc_tfl_order { QC_TFL_PLAIN, QC_TFL_LAST, QC_TFL_ORDERS };

enum { QC_TFL_NO_TENSOR = -1, QC_TFL_OPERANDS = 256 };

/* A tensor of the file. */
struct qc_tfl_tensor {
    const char *name;
    enum qc_dtype dtype;
    struct qc_shape shape; /* in the file's order */
    size_t scale_count;    /* 0: no parameters */
    const float *scale;
    const int32_t *zero_point;
    int axis;         /* of several scales */
    const void *data; /* of a constant, in the arena or the graph; else NULL */
};

struct qc_tfl_node_out {
    enum qc_tfl_operator code;
    int version;
    unsigned input_count, output_count;
    int *ends; /* inputs, then outputs; the two below point at them */
    const int *inputs, *outputs;
    struct qc_fb_object *options; /* NULL: none */
};

struct qc_tfl_writer {
    struct qc_arena *arena; /* dies with the export */
    const struct qc_graph *g;
    struct qc_uses uses;
    struct qc_fb_builder *builder;
    size_t tensor_count, tensor_capacity;
    struct qc_tfl_tensor *tensors;
    size_t node_count, node_capacity;
    struct qc_tfl_node_out *nodes;
    unsigned char *order;     /* [value_count + 1] that a value is made in */
    int *made[QC_TFL_ORDERS]; /* [value_count + 1] its tensor in that order, or NO_TENSOR */
    bool *flat;               /* [value_count + 1] rows of a flattened tensor whose channels are last */
    bool *done;               /* [node_count + 1] nodes that an operator before has taken in */
    size_t refused_count, refused_capacity;
    const char **refused; /* lines */
};

/* --- Tensors (write_tensors.c) --- */

/* Chooses the order of all values. */
bool qc_tfl_out_choose_orders(struct qc_tfl_writer *w, struct qc_status *st);

/* The axis of a tensor of this rank that axis `axis` of a value is. */
int qc_tfl_out_axis(int axis, int rank, enum qc_tfl_order order);
struct qc_shape qc_tfl_out_shape(const struct qc_shape *s, enum qc_tfl_order order);

/* Index of a new tensor; NO_TENSOR and a status on failure, also below. */
int qc_tfl_out_add_tensor(struct qc_tfl_writer *w, const struct qc_tfl_tensor *t, struct qc_status *st);
/* The tensor of a value in an order, with TRANSPOSE or RESHAPE where it is made in another one. */
int qc_tfl_out_tensor_of(struct qc_tfl_writer *w, qc_id v, enum qc_tfl_order order, struct qc_status *st);
/* The same as an operand of operators that broadcast to `rank` axes. */
int qc_tfl_out_operand(struct qc_tfl_writer *w, qc_id v, int rank, enum qc_tfl_order order, struct qc_status *st);
/* The tensor that a value is made in, added where there is none. */
int qc_tfl_out_result(struct qc_tfl_writer *w, qc_id v, struct qc_status *st);
/* A tensor like that of v, but of another shape and name. */
int qc_tfl_out_like(struct qc_tfl_writer *w, qc_id v, const struct qc_shape *shape, const char *suffix,
                    struct qc_status *st);
/* Do the axes that are longer than 1 stay in their order? Axis i of the result is axis perm[i]. */
bool qc_tfl_out_keeps_order(const struct qc_shape *s, const int *perm);
/* TRANSPOSE, or RESHAPE where no element moves. */
bool qc_tfl_out_permute(struct qc_tfl_writer *w, int from, const int *perm, int to, struct qc_status *st);
/* From plain order to channels last. */
bool qc_tfl_out_permute_last(struct qc_tfl_writer *w, int from, int to, struct qc_status *st);
/* Writes the elements of `from`, those of v in plain order, into the tensor of v. */
bool qc_tfl_out_put_plain(struct qc_tfl_writer *w, qc_id v, int from, struct qc_status *st);
/* The constant v, viewed as `view`, with its axes in the order `perm`: axis i of the result is axis perm[i].
   scale_axis: of the result, of several scales. */
int qc_tfl_out_constant(struct qc_tfl_writer *w, qc_id v, const struct qc_shape *view, const int *perm, int scale_axis,
                        struct qc_status *st);
int qc_tfl_out_ints(struct qc_tfl_writer *w, const int64_t *values, size_t count, const char *name,
                    struct qc_status *st);
int qc_tfl_out_int_table(struct qc_tfl_writer *w, const int64_t *values, size_t rows, size_t columns, const char *name,
                         struct qc_status *st);

/* --- Operators (write_nodes.c) --- */

/* tensor NO_TENSOR among inputs: left out. False when memory is out. */
bool qc_tfl_out_add_node(struct qc_tfl_writer *w, enum qc_tfl_operator code, unsigned input_count, const int *inputs,
                         int output, struct qc_fb_object *options, struct qc_status *st);
/* With a version that the types of the operands do not tell. */
bool qc_tfl_out_add_versioned(struct qc_tfl_writer *w, enum qc_tfl_operator code, int version, unsigned input_count,
                              const int *inputs, int output, struct qc_fb_object *options, struct qc_status *st);
/* STRIDED_SLICE; whole: axes that are taken whole, one bit each. */
bool qc_tfl_out_slice(struct qc_tfl_writer *w, int x, int y, const int64_t *begin, const int64_t *end,
                      const int64_t *stride, int64_t whole, struct qc_status *st);
bool qc_tfl_out_reshape(struct qc_tfl_writer *w, int from, int to, struct qc_status *st);
struct qc_fb_object *qc_tfl_out_options(struct qc_tfl_writer *w, enum qc_tfl_table table);

/* Notes what of a node has no form in the file, and returns true: the others are to be noted too. */
bool qc_tfl_out_refuse(struct qc_tfl_writer *w, const struct qc_node *n, struct qc_status *st, const char *fmt, ...)
    QC_PRINTF(4, 5);

/* The clamp that alone reads v, if an operator can have it as its activation: *v becomes its result, and the clamp is
   done. */
enum qc_tfl_activation qc_tfl_out_take_clamp(qc_id *v, struct qc_tfl_writer *w);

/* The first runtime that knows a version of an operator. */
const char *qc_tfl_out_runtime_of(enum qc_tfl_operator code, int version);

/* How a node of the graph is written. */
typedef bool qc_tfl_writes(struct qc_tfl_writer *w, const struct qc_node *n, struct qc_status *st);
qc_tfl_writes qc_tfl_write_product, qc_tfl_write_pool, qc_tfl_write_mean, qc_tfl_write_requantize, qc_tfl_write_binary,
    qc_tfl_write_unary, qc_tfl_write_clamp, qc_tfl_write_concat, qc_tfl_write_shape, qc_tfl_write_transpose,
    qc_tfl_write_slice, qc_tfl_write_split, qc_tfl_write_pad, qc_tfl_write_resize, qc_tfl_write_depth,
    qc_tfl_write_softmax, qc_tfl_write_convert, qc_tfl_write_linear, qc_tfl_write_compare, qc_tfl_write_where,
    qc_tfl_write_not, qc_tfl_write_cast, qc_tfl_write_gather, qc_tfl_write_erf, qc_tfl_write_layer_norm,
    qc_tfl_write_instance_norm, qc_tfl_write_batch_norm, qc_tfl_write_composed, qc_tfl_write_repeat, qc_tfl_write_sizes,
    qc_tfl_write_fill;

/* The accumulator of a product, stored in `result`. */
bool qc_tfl_write_accumulator(struct qc_tfl_writer *w, const struct qc_node *n, qc_id result, struct qc_status *st);
