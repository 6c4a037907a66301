// SPDX-License-Identifier: Apache-2.0
/* Converts a quantized model to the canonical affine graph, which is the same for every form of the file. */
#pragma once

#include "base/words.h"
#include "rewrite/passes/simulate.h"

/* Notes for the report, one line each, in the memory of the graph: what stayed in float or was treated specially. */
/* Converts QuantizeLinear, DequantizeLinear (ONNX) and QLinear operators (graph/core/qlinear.h) with constant float32
   parameters to affine values with bound qparams:
   - Equal parameters become one set of qparams. A dequantize after a quantize with the same qparams vanishes; with
     other qparams the pair is a requantize.
   - Conv, ConvTranspose, Gemm and MatMul of two dequantized values accumulate with the product of their qparams. An
     int32 bias whose scale is exactly f(sx*sw) and whose zero point is 0 is added there. Any other bias is added in
     float32 after the product, and noted.
   - An operator that a pattern of `rules` quantizes and that rounds once (Add, LeakyRelu, pools, ...) becomes affine if
     every user of its result quantizes it with the same parameters, also after operators of the allow-list.
   - Operators that move integers (MaxPool, Reshape, ...) move them with their qparams.
   - Integers that other operators compute with, or that are inputs or outputs of the graph, stay as they are. They
     enter and leave through DequantizeLinear and QuantizeLinear of the same parameters, which is exact.
   - int32 values (inputs, sums of ConvInteger and MatMulInteger) are read by DequantizeLinear. If a Quantize follows,
     the interpreter computes both as a requantize under fixed-point contracts, and as two float32 steps under "onnx"
     (docs/numerics.md).
   All other operators stay in float. The result is not simulated; qc_propagate_qdq, qc_rewrite (requantize.rules) and
   qc_to_integer finish it, as after qc_simulate. A graph without quantization is copied unchanged. rules:
   patterns.rules and allow.rules. notes may be NULL. */
bool qc_canonical(struct qc_graph **out, struct qc_lines *notes, const struct qc_graph *g, const struct qc_rules *rules,
                  struct qc_status *st);

/* Makes the produced graph of a canonical one: expand, fold (requantize.rules) and realise. */
bool qc_canonical_finish(struct qc_graph **out, const struct qc_graph *canonical, const struct qc_rules *rules,
                         const struct qc_rules *fold_rules, qc_eval_fn *eval, struct qc_status *st);

/* Returns true if the graph has a QuantizeLinear, DequantizeLinear or QLinear operator, an integer product, or an LSTM
   with integer products. */
bool qc_is_quantized(const struct qc_graph *g);
