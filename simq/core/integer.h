// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: kernels on stored integers. */
#pragma once

#include "simq/core/kernel.h"

/* Facts about a node, known before its step is made. */
struct qc_int_node {
    const struct qc_graph *graph;
    const struct qc_node *node;
    unsigned input_count;
    const struct qc_view *in; /* data is set for constants */
    const struct qc_scales *in_scales;
    const struct qc_scales *result; /* scales of the node's own result: of the accumulator for products */
    enum qc_dtype result_type;
    enum qc_contract contract;
};

/* Returns the kernel that multiplies and accumulates in integers. Operands are stored integers or centred float32.
   Returns NULL if there is none. */
const struct qc_kernel *qc_int_product_kernel(const struct qc_int_node *n);

/* Sets *out to the largest absolute value that any partial sum can take, from the weights and the levels of the data.
   Weights that are not constant count with their levels. INFINITY: the bound is unknown. Fails if out of memory. */
bool qc_int_product_bound(double *out, const struct qc_int_node *n, struct qc_status *st);

/* Kernels that compute on stored integers and round once, or clamp. X(op, kernel, condition): the kernel computes the
   op if the condition, a function of kernel_int_table.c, holds for a node. The first such row of an op counts.
   Functions of one variable (QC_UNARY) need no row. */
#define QC_INT_KERNELS(X)                                                                                              \
    X(Relu, int_table, clamps_bytes)                                                                                   \
    X(Clip, int_table, clamps_bytes)                                                                                   \
    X(Add, int_binary, two_values)                                                                                     \
    X(Sub, int_binary, two_values)                                                                                     \
    X(Mul, int_binary, two_values)                                                                                     \
    X(ReduceMean, int_mean, sum_fits)                                                                                  \
    X(GlobalAveragePool, int_mean, sum_fits)                                                                           \
    X(AveragePool, int_average, in_fixed_point)                                                                        \
    X(LeakyRelu, int_wide_table, has_wide_function)                                                                    \
    X(Sigmoid, int_wide_table, has_wide_function)                                                                      \
    X(Tanh, int_wide_table, has_wide_function)                                                                         \
    X(Gelu, int_table, in_bytes)                                                                                       \
    X(Table, int_table, in_bytes)

#define QC_X(op, kernel, condition) extern const struct qc_kernel qc_kernel_##kernel;
QC_INT_KERNELS(QC_X)
#undef QC_X

/* Returns the kernel of QC_INT_KERNELS for a node. Returns NULL if there is none: the caller then computes on centred
   numbers, or dequantizes, computes in float and quantizes. */
const struct qc_kernel *qc_int_affine_kernel(const struct qc_int_node *n);

/* DequantizeLinear of int32 values with one scale, and Quantize, as one step, under the fixed-point contracts. */
extern const struct qc_kernel qc_kernel_int_requantize;

/* Dequantize, Softmax and Quantize as one step, under the contracts "tflite" and "xnnpack": 8- or 16-bit integers, one
   scale; TensorFlow Lite fixes the parameters of the result. */
extern const struct qc_kernel qc_kernel_int_softmax;

/* Inside simq/: ops that compute on centred integers with one scale per operand and round once into the qparams of
   the result. */

/* Returns the kernel that computes this node on affine values. Returns NULL if there is none: the node is then
   dequantize, the real op and quantize, each in float32. */
const struct qc_kernel *qc_affine_kernel(const struct qc_node *n, unsigned input_count, const struct qc_scales *in,
                                         const struct qc_scales *out);
