// SPDX-License-Identifier: Apache-2.0
/* Operators: the columns of graph/types/ops.def that all rooms use. */
#pragma once

#include <stdbool.h>

#include "arith/contract.h"
#include "base/status.h"
#include "graph/types/dtype.h"

/* QC_OP_Conv, QC_OP_Relu, ... */
enum qc_op {
    QC_OP_INVALID,
#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel) QC_OP_##op,
#include "graph/types/ops.def"
    QC_OP_COUNT
};

/* Behaviour of an operator on affine values: see graph/types/ops.def. */
enum qc_affine_behaviour {
    QC_AFFINE_NONE,
    QC_AFFINE_KEEP,
    QC_AFFINE_BOUND,
    QC_AFFINE_JOIN,
    QC_AFFINE_MERGE,
    QC_AFFINE_PRODUCT
};

struct qc_infer;

/* Type rule: sets dtype and shape of the outputs from inputs and attributes, as if all values were real. */
typedef bool qc_infer_fn(struct qc_infer *c, struct qc_status *st);

struct qc_op_info {
    const char *name; /* name of the row, also in the text form */
    const char *onnx; /* "" for qcalib's own operators; "domain::Name" outside the default domain */
    unsigned inputs_min, inputs_max, outputs_max;
    enum qc_affine_behaviour affine;
    qc_infer_fn *infer;
    bool unary; /* a QC_UNARY row */
};

const struct qc_op_info *qc_op_info(enum qc_op op);
/* Converts between real values and stored integers, or between parameters. */
static inline bool qc_op_is_conversion(enum qc_op op)
{
    return op == QC_OP_Quantize || op == QC_OP_Dequantize || op == QC_OP_Requantize;
}
/* The same, or ONNX's QuantizeLinear or DequantizeLinear. */
static inline bool qc_op_is_qdq(enum qc_op op)
{
    return qc_op_is_conversion(op) || op == QC_OP_QuantizeLinear || op == QC_OP_DequantizeLinear;
}
bool qc_op_is_random(enum qc_op op);          /* two nodes with the same inputs differ, and files keep the node */
enum qc_op qc_op_from_name(const char *name); /* name of the row; QC_OP_INVALID if unknown */
enum qc_op qc_op_from_onnx(const char *name); /* ONNX name, with the domain unless it is the default one */
/* Copies the ONNX name without its domain into buf and returns it. *domain is "" for the default domain; `domain` may
   be NULL. */
enum { QC_ONNX_NAME = 64 };
const char *qc_op_onnx_name(const char **domain, char buf[QC_ONNX_NAME], enum qc_op op);

/* Gives the scale and zero point that TFLite fixes for results of a known range:
     Sigmoid, Softmax 1/256, lowest level;  Tanh, LpNormalization (p 2) 1/128, middle;  LogSoftmax 16/256, highest
     level; 16 bits signed: 1/32768, 0 (Sigmoid, Softmax, Tanh).
   Returns false if `contract` is neither tflite nor tflite-single, or if it fixes nothing for this op and type. */
bool qc_fixed_parameters(struct qc_affine *out, enum qc_contract contract, enum qc_op op, enum qc_dtype dtype);
