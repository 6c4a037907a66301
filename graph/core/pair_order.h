// SPDX-License-Identifier: Apache-2.0
/* Products that the int8 kernels of x86 without VNNI add in pairs, saturated at 16 bits (arith/contract.h), and
   the weights that form a pair. Measured on ONNX Runtime 1.32 (docs/numerics.md). */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/uses.h"

/* The order in which a kernel multiplies the weights of each channel of the result: weights 2i and 2i + 1 are a
   pair; with an odd count the last one is alone. Conv: positions of the kernel in row-major order, channels of the
   group inside. Gemm, MatMul: the axis that is summed over. */
struct qc_pair_order {
    int64_t channels; /* of the result, times the number of matrices of a MatMul */
    int64_t count;    /* weights per channel */
    /* Weight i of a channel is at (channel / inner) * outer_step + (channel % inner) * channel_step
       + (i / run) * run_step + (i % run) * step. */
    int64_t inner, outer_step, channel_step, run, run_step, step;
};

/* Returns false if the kernel is exact whatever the weights, or if the shape of the weights is unknown. Exact:
   ConvTranspose, ops without products, and a depthwise convolution (several groups, one channel in and out of each)
   whose channels share a zero point. */
bool qc_pair_order_of(struct qc_pair_order *out, const struct qc_graph *g, const struct qc_node *n);

/* Returns the index of an element of the row-major weights. */
static inline int64_t qc_pair_order_at(const struct qc_pair_order *o, int64_t channel, int64_t i)
{
    return channel / o->inner * o->outer_step + channel % o->inner * o->channel_step + i / o->run * o->run_step +
           i % o->run * o->step;
}

/* The same for a weight with contiguous rows, as in RNN, GRU and LSTM. */
struct qc_pair_order qc_pair_order_of_rows(const struct qc_shape *weight);

/* Returns the largest sum of two neighbouring weights of one sign that fits the 16 bits of a pair, for any data of
   this type up to level `highest`. The kernel multiplies unsigned bytes, so int8 data is shifted by 128. Returns 0
   if no such kernel multiplies this type. */
int32_t qc_pair_limit(enum qc_dtype activation, int32_t highest);

/* Returns whether ONNX Runtime computes a Conv, Gemm or MatMul of a produced graph with such a kernel; uses: of the
   graph. Conditions:
   - The weights are int8.
   - The data is uint8, or int8 that becomes uint8, shifted by 128. This happens if the file has QuantizeLinear and
   DequantizeLinear and only one operator reads them; other int8 data is multiplied exactly.
   - The result has the type of the data; for Gemm and MatMul it may also be float. */
bool qc_saturates_in_pairs(const struct qc_uses *uses, const struct qc_node *n);

/* Proves from the weights of a quantized graph that x86 without VNNI computes it exactly, whatever the data
   (graph/core/pair_order.h). */
struct qc_pair_proof {
    size_t products;   /* multiplications of 8-bit data by int8 weights that may be computed in pairs */
    size_t saturating; /* products with a pair that may overflow 16 bits, or whose int8 operand is not constant */
    size_t unknown;    /* further products whose integers are unknown: a file's DynamicQuantizeLSTM is read with real
                          weights */
    qc_id first;       /* the first saturating product, in the graph given; 0: none, or in a body */
};

/* g: produced, or read from a file and canonical. Its bodies are included. */
void qc_prove_pairs(struct qc_pair_proof *out, const struct qc_graph *g);
