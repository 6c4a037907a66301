// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: kernels on stored integers. */
#pragma once

#include "simq/core/kernel.h"

/* What is known of a node before its step is made. */
struct qc_int_node {
    const struct qc_graph *graph;
    const struct qc_node *node;
    unsigned input_count;
    const struct qc_view *in; /* data set for constants */
    const struct qc_scales *in_scales;
    const struct qc_scales *result; /* scales of the node's own result: an accumulator's for products */
    enum qc_dtype result_type;
    enum qc_contract contract;
};

/* The kernel that multiplies and accumulates in integers, for operands that are stored integers or centred float32, or
 * NULL. */
const struct qc_kernel *qc_int_product_kernel(const struct qc_int_node *n);

/* The largest absolute value that any partial sum of the accumulator can take, from the weights (their levels, when
   they are not constant) and the levels of the data. INFINITY when it cannot be told. */
double qc_int_product_bound(const struct qc_int_node *n);

/* The kernel that computes from stored integers and rounds once, or clamps them, or NULL: then it is done on centred
   numbers, or as dequantize, the real op, quantize. */
const struct qc_kernel *qc_int_affine_kernel(const struct qc_int_node *n);

/* DequantizeLinear of int32 numbers, by one scale, and Quantize as one step, under the contracts in fixed point. */
extern const struct qc_kernel qc_kernel_int_requantize;

/* Dequantize, Softmax and Quantize as one step, under the contract "tflite": 8-bit integers, one scale, result in the
 * fixed parameters. */
extern const struct qc_kernel qc_kernel_int_softmax;

/* Add, Sub, Mul; means over dimensions; functions of one 8-bit value. */
extern const struct qc_kernel qc_kernel_int_binary, qc_kernel_int_mean, qc_kernel_int_table;

/* AveragePool under the contracts in fixed point. */
extern const struct qc_kernel qc_kernel_int_average;
