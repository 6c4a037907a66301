// SPDX-License-Identifier: Apache-2.0
#include <string.h>

#include "graph/core/infer.h"
#include "graph/types/op.h"

static const struct qc_op_info infos[QC_OP_COUNT] = {
    [QC_OP_INVALID] = {.name = "invalid", .onnx = ""},
#define QC_UNARY(op, onnx_name, a, a0, b, b0, expression, lo, hi, tolerance)                                           \
    [QC_OP_##op] = {.name = #op,                                                                                       \
                    .onnx = (onnx_name),                                                                               \
                    .inputs_min = 1,                                                                                   \
                    .inputs_max = 1,                                                                                   \
                    .outputs_max = 1,                                                                                  \
                    .affine = QC_AFFINE_MERGE,                                                                         \
                    .infer = qc_infer_float_unary,                                                                     \
                    .unary = true},
#define QC_OP(op, onnx_name, in_min, in_max, out_max, behaviour, rule, kernel)                                         \
    [QC_OP_##op] = {.name = #op,                                                                                       \
                    .onnx = (onnx_name),                                                                               \
                    .inputs_min = (in_min),                                                                            \
                    .inputs_max = (in_max),                                                                            \
                    .outputs_max = (out_max),                                                                          \
                    .affine = QC_AFFINE_##behaviour,                                                                   \
                    .infer = qc_infer_##rule},
#include "graph/types/ops.def"
};

const struct qc_op_info *qc_op_info(enum qc_op op)
{
    return &infos[op];
}

bool qc_op_is_random(enum qc_op op)
{
    return op >= QC_OP_RandomNormal && op <= QC_OP_Multinomial;
}

const char *qc_op_onnx_name(const char **domain, char buf[QC_ONNX_NAME], enum qc_op op)
{
    const char *whole = infos[op].onnx, *at = strstr(whole, "::");
    buf[0] = '\0';
    strncat(buf, whole, QC_ONNX_NAME - 1);
    if (at) buf[at - whole] = '\0';
    if (domain) *domain = at ? buf : "";
    return at ? buf + (at - whole) + 2 : buf;
}

enum qc_op qc_op_from_name(const char *name)
{
    for (int i = 1; i < QC_OP_COUNT; i++)
        if (infos[i].name[0] == name[0] && strcmp(infos[i].name, name) == 0) return (enum qc_op)i;
    return QC_OP_INVALID;
}

enum qc_op qc_op_from_onnx(const char *name)
{
    for (int i = 1; i < QC_OP_COUNT; i++)
        if (infos[i].onnx[0] && infos[i].onnx[0] == name[0] && strcmp(infos[i].onnx, name) == 0) return (enum qc_op)i;
    return QC_OP_INVALID;
}

bool qc_fixed_parameters(struct qc_affine *out, enum qc_contract contract, enum qc_op op, enum qc_dtype dtype)
{
    if (contract != QC_CONTRACT_TFLITE && contract != QC_CONTRACT_TFLITE_SINGLE) return false;
    const struct qc_dtype_info *t = qc_dtype_info(dtype);
    const bool bounded = op == QC_OP_Sigmoid || op == QC_OP_Softmax,
               centred = op == QC_OP_Tanh || op == QC_OP_LpNormalization;
    if (dtype == QC_I16 && (bounded || op == QC_OP_Tanh)) {
        *out = (struct qc_affine){.scale = 0x1p-15f, .zero_point = 0};
        return true;
    }
    if (dtype != QC_I8 && dtype != QC_U8) return false;
    if (bounded) {
        *out = (struct qc_affine){.scale = 0x1p-8f, .zero_point = t->lo};
    } else if (centred) {
        *out = (struct qc_affine){.scale = 0x1p-7f, .zero_point = t->is_signed ? 0 : 128};
    } else if (op == QC_OP_LogSoftmax) {
        *out = (struct qc_affine){.scale = 0x1p-4f, .zero_point = t->hi};
    } else {
        return false;
    }
    return true;
}
