// SPDX-License-Identifier: Apache-2.0
/* ONNX's and ONNX Runtime's quantized operators, taken apart: which input is what. */
#pragma once

#include "graph/core/graph.h"

/* A quantized operand: its integers, scale and zero point (QC_ABSENT: 0; the scale of ConvInteger and MatMulInteger:
 * 1). */
struct qc_qlinear_port {
    qc_id value, scale, zero_point;
};

struct qc_qlinear {
    enum qc_op op;     /* what it computes on real values */
    unsigned operands; /* quantized inputs */
    qc_id extra;       /* bias (int32, in the accumulator's qparams) of a product, condition of Where; or QC_ABSENT */
    bool result; /* is the result quantized? Else float (QGemm) or the int32 accumulator (ConvInteger, MatMulInteger) */
    struct qc_qlinear_port out; /* value: the node's output */
};

/* False when the node is none of them. Sources: ONNX QLinearConv-10, QLinearMatMul-21, ConvInteger-10,
   MatMulInteger-10; ONNX Runtime's com.microsoft QGemm, QLinearAdd, QLinearMul, QLinearConcat, QLinearWhere,
   QLinearLeakyRelu, QLinearSigmoid, QLinearSoftmax, QLinearAveragePool, QLinearGlobalAveragePool (version 1). */
bool qc_qlinear_of(struct qc_qlinear *out, const struct qc_node *n);
/* Operand i < operands. */
struct qc_qlinear_port qc_qlinear_operand(const struct qc_node *n, unsigned i);

/* The same as indices among the node's inputs, -1 where there is none; operand i < operands, or the result: i =
 * QC_QLINEAR_RESULT (no value). */
enum { QC_QLINEAR_RESULT = -1 };
struct qc_qlinear_places {
    int value, scale, zero_point;
};
struct qc_qlinear_places qc_qlinear_places(const struct qc_node *n, int i);
int qc_qlinear_extra_place(const struct qc_node *n);

/* The real op as a node that is not in a graph: op, operands (and extra behind those of a product, or before those of
   Where) and attributes, for type rules and qc_window_of. inputs: at least operands + 1 places. */
struct qc_node qc_qlinear_real(qc_id *inputs, const struct qc_qlinear *q, const struct qc_node *n);
