// SPDX-License-Identifier: Apache-2.0
#include "simq/core/kernel.h"

static const struct qc_kernel *const kernels[QC_OP_COUNT] = {
#define QC_OP(op, onnx, in_min, in_max, out_max, affine, rule, kernel) [QC_OP_##op] = &qc_kernel_##kernel,
#include "graph/types/ops.def"
};

const struct qc_kernel *qc_kernel_of(enum qc_op op)
{
    return op > QC_OP_INVALID && op < QC_OP_COUNT ? kernels[op] : NULL;
}
