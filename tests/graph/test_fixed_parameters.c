// SPDX-License-Identifier: Apache-2.0
#include "graph/types/op.h"
#include "tests/check.h"

Test(fixed_parameters, tflite_fixes_the_parameters_of_results_of_known_range)
{
    static const struct {
        enum qc_op op;
        enum qc_dtype type;
        float scale;
        int32_t zero_point;
    } cases[] = {{QC_OP_Sigmoid, QC_I8, 1.0f / 256, -128},
                 {QC_OP_Softmax, QC_I8, 1.0f / 256, -128},
                 {QC_OP_Tanh, QC_I8, 1.0f / 128, 0},
                 {QC_OP_LpNormalization, QC_I8, 1.0f / 128, 0},
                 {QC_OP_LogSoftmax, QC_I8, 16.0f / 256, 127},
                 {QC_OP_Sigmoid, QC_U8, 1.0f / 256, 0},
                 {QC_OP_Softmax, QC_U8, 1.0f / 256, 0},
                 {QC_OP_Tanh, QC_U8, 1.0f / 128, 128},
                 {QC_OP_LpNormalization, QC_U8, 1.0f / 128, 128},
                 {QC_OP_LogSoftmax, QC_U8, 16.0f / 256, 255},
                 {QC_OP_Sigmoid, QC_I16, 1.0f / 32768, 0},
                 {QC_OP_Tanh, QC_I16, 1.0f / 32768, 0}};
    struct qc_affine p;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cr_assert(qc_fixed_parameters(&p, QC_CONTRACT_TFLITE, cases[i].op, cases[i].type), "%d", (int)i);
        cr_assert(p.scale == cases[i].scale && p.zero_point == cases[i].zero_point, "%d", (int)i);
        cr_assert(!qc_fixed_parameters(&p, QC_CONTRACT_ONNX, cases[i].op, cases[i].type));
    }
    cr_assert(!qc_fixed_parameters(&p, QC_CONTRACT_TFLITE, QC_OP_Conv, QC_I8));
    cr_assert(!qc_fixed_parameters(&p, QC_CONTRACT_TFLITE, QC_OP_Sigmoid, QC_I4));
}
