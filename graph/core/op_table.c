// SPDX-License-Identifier: Apache-2.0
#include "graph/types/op.h"

#include <string.h>

#include "graph/core/infer.h"

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
        if (strcmp(infos[i].name, name) == 0) return (enum qc_op)i;
    return QC_OP_INVALID;
}

enum qc_op qc_op_from_onnx(const char *name)
{
    for (int i = 1; i < QC_OP_COUNT; i++)
        if (infos[i].onnx[0] && strcmp(infos[i].onnx, name) == 0) return (enum qc_op)i;
    return QC_OP_INVALID;
}
