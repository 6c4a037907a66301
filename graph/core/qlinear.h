// SPDX-License-Identifier: Apache-2.0
/* The quantized operators of ONNX and ONNX Runtime, with the meaning of each input. */
#pragma once

#include "graph/core/graph.h"

/* A quantized operand: integers, scale and zero point (QC_ABSENT: 0; the absent scale of ConvInteger and
   MatMulInteger: 1). */
struct qc_qlinear_port {
    qc_id value, scale, zero_point;
};

struct qc_qlinear {
    enum qc_op op;     /* the corresponding op on real values */
    unsigned operands; /* number of quantized inputs */
    qc_id extra;       /* bias of a product (int32, in the accumulator's qparams), condition of Where, or QC_ABSENT */
    bool result;       /* the result is quantized; else it is float (QGemm) or the int32 accumulator (ConvInteger,
                          MatMulInteger) */
    struct qc_qlinear_port out; /* value: the node's output */
};

/* Returns false if the node is not one of them. Sources: ONNX QLinearConv-10, QLinearMatMul-21, ConvInteger-10,
   MatMulInteger-10; ONNX Runtime's com.microsoft QGemm, QLinearAdd, QLinearMul, QLinearConcat, QLinearWhere,
   QLinearLeakyRelu, QLinearSigmoid, QLinearSoftmax, QLinearAveragePool, QLinearGlobalAveragePool (version 1). */
bool qc_qlinear_of(struct qc_qlinear *out, const struct qc_node *n);
/* Returns operand i < operands. */
struct qc_qlinear_port qc_qlinear_operand(const struct qc_node *n, unsigned i);

/* The same as positions among the node's inputs, -1 if absent. Operand i < operands, or the result: i =
   QC_QLINEAR_RESULT (no value). */
enum { QC_QLINEAR_RESULT = -1 };
struct qc_qlinear_places {
    int value, scale, zero_point;
};
struct qc_qlinear_places qc_qlinear_places(const struct qc_node *n, int i);
int qc_qlinear_extra_place(const struct qc_node *n);

/* Returns the real op as a node outside any graph, for type rules and qc_window_of: op, operands and attributes.
   `extra` follows the operands of a product and precedes those of Where. inputs: at least operands + 1 elements. */
struct qc_node qc_qlinear_real(qc_id *inputs, const struct qc_qlinear *q, const struct qc_node *n);
