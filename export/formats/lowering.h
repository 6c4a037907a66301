// SPDX-License-Identifier: Apache-2.0
/* Inside export/: lowers a produced graph to ONNX operators, node by node. A quantized value has a stored form
   (integers) and a real one (float32), each made once on first use. */
#pragma once

#include "export/formats/exporter.h"
#include "graph/core/uses.h"

struct qc_lowering {
    struct qc_lower_options options;
    const struct qc_graph *from;
    struct qc_uses uses; /* of from */
    struct qc_graph *to;
    struct qc_arena *arena; /* of the lowering */
    qc_id *real;            /* [value_count + 1]: the float value; of an affine value made on demand */
    qc_id *integer;         /* [value_count + 1]: the stored integers of an affine value, 0 until made */
    qc_id *cache;       /* [value_count + 1]: the affine value that an input or output that is a cache is stored in; 0:
                           not stored */
    const char **given; /* [value_count + 1]: names of integers that are a graph output, or NULL */
    bool *called;       /* [value_count + 1]: input of an operator that may be written again */
    bool recurrent;     /* from has an LSTM, GRU or RNN */
    bool old;           /* from has an operator without a kernel of ONNX Runtime (1.32) from opset 22 on */
};

typedef void qc_lower_node_fn(struct qc_lowering *x, qc_id node, struct qc_status *st);

/* Lowers the inputs, then every node in order with `node`. *out is owned. */
bool qc_lower_graph(struct qc_graph **out, const struct qc_graph *g, qc_lower_node_fn *node,
                    const struct qc_lower_options *options, struct qc_status *st);

/* Writes tables that are also matrices once (export/formats/unshared.c). Replaces *g, which stays unchanged on
   failure. */
bool qc_lower_share_tables(struct qc_graph **g, struct qc_status *st);

/* Gives each operator whose int8 weights ONNX Runtime may rewrite its own weights and zero points
   (export/formats/unshared.c). Replaces *g, which stays unchanged on failure. qc_lower_graph does it last. */
bool qc_lower_unshare(struct qc_graph **g, struct qc_status *st);

/* Writes operators of the model file that were imported as functions again, if none of their nodes was quantized or
   changed (export/formats/restored_calls.c). Replaces x->to, in which all nodes and outputs are lowered. */
bool qc_lower_restore_calls(struct qc_lowering *x, struct qc_status *st);

/* QDQ: QuantizeLinear, DequantizeLinear, and every other op unchanged on the float forms of its inputs; results with a
   quantizer are quantized. */
void qc_lower_plain(struct qc_lowering *x, qc_id node, struct qc_status *st);

/* Returns the float form of any value. 0 and a status on failure. */
qc_id qc_lower_real(struct qc_lowering *x, qc_id v, struct qc_status *st);
void qc_lower_integer(struct qc_lowering *x, qc_id v, struct qc_status *st);

/* Returns the type that operators read: 4 bits are held in 8. ONNX Runtime (1.31) fuses integer kernels only around 8
   bits, and builds graphs with 4 bits that it then refuses. A Clip limits integers to the levels of the narrower type.
   Constants are stored in 4 bits with a Cast after them, which runtimes fold. */
enum qc_dtype qc_lower_type(const struct qc_qparams *s);
qc_id qc_lower_cut(struct qc_lowering *x, qc_id integer, const struct qc_qparams *s, const char *base,
                   struct qc_status *st);

/* Adds scale and zero point as initializers, vectors or scalars; out[1] is QC_ABSENT for int32, which has no zero
   point. */
void qc_lower_parameters(qc_id out[2], struct qc_lowering *x, const struct qc_qparams *s, bool vector,
                         struct qc_status *st);
/* Adds an affine constant in blocks as real numbers: DequantizeLinear with block_size. The type in the file is that of
   the qparams, or int2 for levels of 2 bits, which needs opset 25. */
qc_id qc_lower_blocks(struct qc_lowering *x, qc_id v, struct qc_status *st);
/* Returns the affine constant in blocks, a matrix, that a Dequantize reads, or 0. */
qc_id qc_lower_in_blocks(const struct qc_graph *g, const struct qc_node *dequantize);
/* Rows that a Gather reads of a weight table (export/formats/lowering_blocks.c). The first returns the table, an affine
   constant, or 0. The second lowers the node and returns true, if it is such a Gather or the Dequantize of a table
   that only such nodes read. */
bool qc_lower_all_read(const struct qc_lowering *x, const struct qc_node *n,
                       bool (*reads)(const struct qc_lowering *x, const struct qc_node *reader)); /* some, no output */
qc_id qc_lower_table_of(const struct qc_lowering *x, const struct qc_node *n);
bool qc_lower_zero_points_differ(const struct qc_qparams *s); /* of its scales */
bool qc_lower_rows(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st);
/* Returns whether this input of an Add is the bias of an integer product that ONNX Runtime would otherwise compute in
   float (export/formats/lowering_blocks.c). It is then written as a constant of three dimensions. */
bool qc_lower_is_bias(const struct qc_lowering *x, const struct qc_node *n, unsigned input);
/* A shuffle of stored channels in a form that ONNX Runtime moves fast (export/formats/lowering_blocks.c). */
struct qc_shuffled {
    struct qc_node node;
    struct qc_attr attr;
    qc_id shape; /* replaces the shape of a Reshape; 0: its own */
};

/* Returns the node to be written: n itself, or in s a Transpose of fewer axes. */
const struct qc_node *qc_lower_shuffle(struct qc_shuffled *s, struct qc_lowering *x, const struct qc_node *n,
                                       struct qc_status *st);
/* Adds an operator that moves elements, on integers. zero: the name of the level of zero, if a Pad fills with it. */
void qc_lower_moving(struct qc_lowering *x, const struct qc_node *n, const char *zero, struct qc_status *st);
/* Files for OpenVINO (export/formats/lowering_openvino.c). The first lowers a Pad to one of integers and returns true:
   ONNX Runtime (1.32) computes the QDQ form in float, OpenVINO some of them wrongly. The others return true if input i
   of a float op must be kept apart from what makes it, or its first result from what reads it; the last one sets the
   opset that the op needs. */
bool qc_lower_pad(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st);
bool qc_lower_reads_apart(const struct qc_lowering *x, const struct qc_node *n, unsigned i);
bool qc_lower_is_rewritten(struct qc_lowering *x, const struct qc_node *n);
/* Returns the name of a float value inside the graph: the original one, unless it belongs to a graph output that
   another node makes. */
const char *qc_lower_inner_name(struct qc_lowering *x, qc_id v, struct qc_status *st);
/* Return unused names of a new node and of its result: "BASE_WHAT". */
void qc_lower_fresh_names(const char **name, const char **node, struct qc_lowering *x, enum qc_op op, const char *base,
                          const char *what, struct qc_status *st);
/* Adds a node under unused names; its result is "BASE_WHAT" unless the definition names it. */
qc_id qc_lower_add(struct qc_lowering *x, struct qc_node_def def, const char *base, const char *what,
                   struct qc_status *st);
/* An initializer named "SPACE_WHAT". */
qc_id qc_lower_constant(struct qc_lowering *x, enum qc_dtype dtype, const struct qc_shape *shape, const void *data,
                        const char *qparams, const char *what, struct qc_status *st);
/* What the integers and float forms of a value are named after: its own name, that of what it is quantized from, or
 * that of its qparams. */
const char *qc_lower_base(const struct qc_lowering *x, qc_id v);
