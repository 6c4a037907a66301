// SPDX-License-Identifier: Apache-2.0
/* Operators: the columns of graph/types/ops.def that every room may ask for. */
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

/* How an op behaves on affine values: see graph/types/ops.def. */
enum qc_affine_behaviour {
    QC_AFFINE_NONE,
    QC_AFFINE_KEEP,
    QC_AFFINE_BOUND,
    QC_AFFINE_JOIN,
    QC_AFFINE_MERGE,
    QC_AFFINE_PRODUCT
};

struct qc_infer;

/* Type rule: fills types of the outputs (dtype and shape) from inputs and attributes, as if all values were real. */
typedef bool qc_infer_fn(struct qc_infer *c, struct qc_status *st);

struct qc_op_info {
    const char *name; /* of the row, also in the text form */
    const char *onnx; /* "" for ours; "domain::Name" outside the default domain */
    unsigned inputs_min, inputs_max, outputs_max;
    enum qc_affine_behaviour affine;
    qc_infer_fn *infer;
    bool unary; /* a QC_UNARY row */
};

const struct qc_op_info *qc_op_info(enum qc_op op);
enum qc_op qc_op_from_name(const char *name); /* of the row; QC_OP_INVALID when unknown */
enum qc_op qc_op_from_onnx(const char *name); /* as the column has it: with the domain, unless it is the default one */
/* The ONNX name without its domain; *domain (may be NULL) is "" for the default one. Copied into buf. */
enum { QC_ONNX_NAME = 64 };
const char *qc_op_onnx_name(const char **domain, char buf[QC_ONNX_NAME], enum qc_op op);

/* Scale and zero point of results whose range is known, which TFLite fixes:
     Sigmoid, Softmax 1/256, lowest level;  Tanh, LpNormalization (p 2) 1/128, middle;  LogSoftmax 16/256, highest
     level; 16 bits signed: 1/32768, 0 (Sigmoid, Softmax, Tanh).
   False when `contract` is another than tflite and tflite-single, or fixes nothing for this op and type. */
bool qc_fixed_parameters(struct qc_affine *out, enum qc_contract contract, enum qc_op op, enum qc_dtype dtype);
