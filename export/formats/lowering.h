// SPDX-License-Identifier: Apache-2.0
/* Inside export/: from a produced graph to operators of ONNX, node by node. A value in a quantizer has a stored form
   (integers) and a real one (float32), each made once, when it is first asked for. */
#pragma once

#include "export/formats/exporter.h"
#include "graph/core/uses.h"

struct qc_lowering {
    struct qc_lower_options options;
    const struct qc_graph *from;
    struct qc_uses uses; /* of from */
    struct qc_graph *to;
    qc_id *real;        /* [value_count + 1]: the float value; of an affine value made on demand */
    qc_id *integer;     /* [value_count + 1]: the stored integers of an affine value, 0 while there are none */
    const char **given; /* [value_count + 1]: names of integers that are a graph output, or NULL */
};

typedef bool qc_lower_node_fn(struct qc_lowering *x, qc_id node, struct qc_status *st);

/* Interface, then every node in order by `node`. *out is owned. */
bool qc_lower_graph(struct qc_graph **out, const struct qc_graph *g, qc_lower_node_fn *node,
                    const struct qc_lower_options *options, struct qc_status *st);

/* Gives each operator whose int8 weights ONNX Runtime may rewrite weights and zero points of its own
   (export/formats/unshared.c): replaces *g, or leaves it on failure. qc_lower_graph does it last. */
bool qc_lower_unshare(struct qc_graph **g, struct qc_status *st);

/* QDQ: QuantizeLinear, DequantizeLinear, and every other op as it is, on the float forms of its inputs; results in a
 * quantizer are quantized. */
bool qc_lower_plain(struct qc_lowering *x, qc_id node, struct qc_status *st);

/* The float form of any value. 0 and a status on failure. */
qc_id qc_lower_real(struct qc_lowering *x, qc_id v, struct qc_status *st);
bool qc_lower_integer(struct qc_lowering *x, qc_id v, struct qc_status *st);
/* The levels of a constant in the type that the file stores; of small floats another tensor. */
struct qc_tensor *qc_lower_levels(enum qc_dtype dtype, const struct qc_tensor *t, struct qc_status *st);

/* Integers that enter or leave the graph as they are stand in a produced graph behind DequantizeLinear and before
   QuantizeLinear of the parameters that their affine form has: Quantize(DequantizeLinear(i)) and
   QuantizeLinear(Dequantize(q)). Is the node the second of such a pair? Then it is nothing, and its result is made of
   what is there already. */
bool qc_lower_integer_interface(struct qc_lowering *x, const struct qc_node *n);
/* Fills given. */
void qc_lower_name_interfaces(struct qc_lowering *x);
/* Name of the integers of a value: that of the graph output that they are, else "<base>_quantized". NULL only when
 * memory is out. */
const char *qc_lower_integer_name(const struct qc_lowering *x, qc_id v, const char *base, struct qc_status *st);

/* The type that the operators see: four bits are held in eight. ONNX Runtime fuses integer kernels around eight bits
   only, and builds graphs that it then refuses around four (1.31). What a quantizer may not reach of the wider type a
   Clip of integers cuts off; constants are stored in four bits, with a Cast behind them that runtimes fold. */
enum qc_dtype qc_lower_type(const struct qc_qparams *s);
qc_id qc_lower_cut(struct qc_lowering *x, qc_id integer, const struct qc_qparams *s, const char *base,
                   struct qc_status *st);

/* Scale and zero point as initializers, vectors or scalars; out[1] is QC_ABSENT for int32, which has no zero point. */
bool qc_lower_parameters(qc_id out[2], struct qc_lowering *x, const struct qc_qparams *s, bool vector,
                         struct qc_status *st);
/* An affine constant in blocks as real numbers: DequantizeLinear with block_size. The type in the file is that of the
   qparams, but int2 where the levels are of 2 bits, which opset 25 has. */
qc_id qc_lower_blocks(struct qc_lowering *x, qc_id v, struct qc_status *st);
/* The affine constant in blocks, a matrix, that a Dequantize reads, or 0. */
qc_id qc_lower_in_blocks(const struct qc_graph *g, const struct qc_node *dequantize);
/* Are there zero points that are not 0; and all of them as an initializer. */
bool qc_lower_has_zero_points(const struct qc_qparams *s);
qc_id qc_lower_zero_points(struct qc_lowering *x, const struct qc_qparams *s, enum qc_dtype dtype,
                           const struct qc_shape *shape, struct qc_status *st);
/* Rows that a Gather takes of a table of weights (export/formats/lowering_rows.c): the table, an affine constant, or 0;
   and the node, with *done, where it is one, or the Dequantize of a table that only such nodes read. */
qc_id qc_lower_table_of(const struct qc_lowering *x, const struct qc_node *n);
bool qc_lower_rows(bool *done, struct qc_lowering *x, const struct qc_node *n, struct qc_status *st);
/* MatMulNBits and GatherBlockQuantized (export/formats/lowering_nbits.c): may this node be one; is this the Dequantize
   of a weight that only such nodes read; and the node. */
bool qc_lower_has_nbits(const struct qc_lowering *x, const struct qc_node *n);
bool qc_lower_is_nbits_weight(const struct qc_lowering *x, const struct qc_node *n);
bool qc_lower_nbits(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st);
/* DynamicQuantizeLSTM (export/formats/lowering_lstm.c): is this an LSTM that is one, the Dequantize or Reshape of a
   weight that only such nodes read; and the node. */
bool qc_lower_has_lstm(const struct qc_lowering *x, const struct qc_node *n);
bool qc_lower_is_lstm_weight(const struct qc_lowering *x, const struct qc_node *n);
bool qc_lower_lstm(struct qc_lowering *x, const struct qc_node *n, struct qc_status *st);
/* Is this input of an Add the bias of a product of integers that ONNX Runtime would compute in float; and that bias as
   a constant of three dimensions (export/formats/lowering_blocks.c). */
bool qc_lower_is_bias(const struct qc_lowering *x, const struct qc_node *n, unsigned input);
qc_id qc_lower_bias(struct qc_lowering *x, qc_id v, struct qc_status *st);
/* A shuffle of stored channels as ONNX Runtime moves it fast (export/formats/lowering_shuffle.c). */
struct qc_shuffled {
    struct qc_node node;
    struct qc_attr attr;
    qc_id shape; /* a Reshape takes this shape in place of its own; 0: its own */
};

/* The node as it is written: n itself, or in s a Transpose of fewer axes. NULL and a status on failure. */
const struct qc_node *qc_lower_shuffle(struct qc_shuffled *s, struct qc_lowering *x, const struct qc_node *n,
                                       struct qc_status *st);
/* Is it an Add that is written as a Sum (export/formats/lowering_residual.c)? */
bool qc_lower_is_residual(const struct qc_lowering *x, const struct qc_node *n);
/* Products of dynamic quantization (export/formats/lowering_dynamic.c): *done where the node is a part of one; it is
   made with its last part. */
bool qc_lower_dynamic(bool *done, struct qc_lowering *x, const struct qc_node *n, struct qc_status *st);
/* Name of a float value inside the graph: the original one, unless it belongs to a graph output that is made elsewhere.
 */
const char *qc_lower_inner_name(struct qc_lowering *x, qc_id v, struct qc_status *st);
/* Names of a node of ours, and of its result, that nothing else has: "BASE_WHAT". */
bool qc_lower_fresh_names(const char **name, const char **node, struct qc_lowering *x, enum qc_op op, const char *base,
                          const char *what, struct qc_status *st);
/* An initializer named "SPACE_WHAT". */
qc_id qc_lower_constant(struct qc_lowering *x, enum qc_dtype dtype, const struct qc_shape *shape, const void *data,
                        const char *qparams, const char *what, struct qc_status *st);
/* What the integers and float forms of a value are named after: its own name, that of what it is quantized from, or
 * that of its qparams. */
const char *qc_lower_base(const struct qc_lowering *x, qc_id v);
