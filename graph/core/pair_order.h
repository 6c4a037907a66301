// SPDX-License-Identifier: Apache-2.0
/* Which products the int8 kernels of x86 without VNNI add in pairs that saturate at 16 bits (arith/pair_product.h), and
   which weights are a pair. Measured on ONNX Runtime 1.32 (docs/numerics.md). */
#pragma once

#include "graph/core/uses.h"

/* Weights of each channel of the result in the order in which a kernel multiplies them: numbers 2i and 2i + 1 are a
   pair, and where the count is odd the last one is alone. Conv: positions of the kernel in row-major order, channels of
   the group inside; Gemm, MatMul: the axis that is summed over. */
struct qc_pair_order {
    int64_t channels; /* of the result; times the matrices of a MatMul */
    int64_t count;    /* weights of each */
    /* Weight i of a channel is at (channel / inner) * outer_step + (channel % inner) * channel_step
       + (i / run) * run_step + (i % run) * step. */
    int64_t inner, outer_step, channel_step, run, run_step, step;
};

/* False for an op whose kernel is exact whatever the weights - ConvTranspose, a depthwise convolution (several groups,
   one channel in and out of each) whose channels share a zero point, no product - or whose weights have no known
   shape. */
bool qc_pair_order_of(struct qc_pair_order *out, const struct qc_graph *g, const struct qc_node *n);

/* Element of the weights, which lie row-major in memory. */
static inline int64_t qc_pair_order_at(const struct qc_pair_order *o, int64_t channel, int64_t i)
{
    return channel / o->inner * o->outer_step + channel % o->inner * o->channel_step + i / o->run * o->run_step +
           i % o->run * o->step;
}

/* The same for a weight whose rows lie side by side, as those of RNN, GRU and LSTM do. */
struct qc_pair_order qc_pair_order_of_rows(const struct qc_shape *weight);

/* The largest sum of two neighbouring weights of one sign that keeps the 16 bits of a pair, whatever the data: of
   activations of this type up to this level. The kernel multiplies bytes without a sign, so int8 is shifted by 128.
   0: no such kernel multiplies this type. */
int32_t qc_pair_limit(enum qc_dtype activation, int32_t highest);

/* Does ONNX Runtime compute Conv, Gemm, MatMul of a produced graph, whose uses are given, with such a kernel? It does
   where
   - the weights are int8;
   - the data are uint8. int8 data become uint8, shifted by 128, where the file says QuantizeLinear and DequantizeLinear
   and one operator alone reads them; else they are multiplied exactly;
   - the result of a Conv is quantized (of a Gemm or MatMul it may be float), and its type is that of the data. */
bool qc_saturates_in_pairs(const struct qc_uses *uses, const struct qc_node *n);
