// SPDX-License-Identifier: Apache-2.0
#include "graph/types/op.h"

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
