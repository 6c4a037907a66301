// SPDX-License-Identifier: Apache-2.0
/* From a quantized model as it stands in a file to the canonical affine graph: the same, whichever form it was in. */
#pragma once

#include "rewrite/passes/simulate.h"

/* What stayed in float, or was taken in a particular way: one line each, in the memory of the graph. */
struct qc_canonical_notes {
    size_t count, capacity;
    const char **lines;
};

/* QuantizeLinear, DequantizeLinear (ONNX) and QLinear operators (graph/core/qlinear.h) with constant float32 parameters
   become values with bound qparams:
   - equal parameters are one set of qparams, so a dequantize behind a quantize with the same ones vanishes, and with
   others is a requantize;
   - Conv, ConvTranspose, Gemm, MatMul of two dequantized values accumulate with the product of their qparams. An int32
   bias whose scale is exactly f(sx*sw) and whose zero point is 0 is added there; any other is added in float32 behind,
   and noted;
   - operators that a pattern of `rules` quantizes and that round once (Add, LeakyRelu, pools, ...) do so when all that
   uses their result quantizes it with the same parameters, be it behind operators of the allow-list;
   - what moves integers (MaxPool, Reshape, ...) moves them with their qparams;
   - integers that something else computes with, or that cross the interface of the graph, stay as they are: they enter
   and leave through DequantizeLinear and QuantizeLinear of the same parameters, which is exact;
   - int32 values (inputs, sums of ConvInteger and MatMulInteger) are read by DequantizeLinear; with a Quantize behind
   it the interpreter takes both as a requantize under the contracts in fixed point, as two float32 steps under "onnx"
   (docs/numerics.md). Everything else stays a float op. The result is not simulated; qc_propagate_qdq, qc_rewrite
   (requantize.rules) and qc_to_integer finish it as they do after qc_simulate. A graph without quantization comes out
   as it went in. rules: patterns.rules and allow.rules. notes may be NULL. */
bool qc_canonical(struct qc_graph **out, struct qc_canonical_notes *notes, const struct qc_graph *g,
                  const struct qc_rules *rules, struct qc_status *st);

/* The produced graph: expand, fold (requantize.rules) and realise a canonical one. */
bool qc_canonical_finish(struct qc_graph **out, const struct qc_graph *canonical, const struct qc_rules *rules,
                         const struct qc_rules *fold_rules, qc_eval_fn *eval, struct qc_status *st);

/* Is there anything to do? */
bool qc_is_quantized(const struct qc_graph *g);
