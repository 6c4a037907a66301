// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: shared by the kernels of the quantized operators of ONNX and ONNX Runtime. Elements are u8 or i8,
   views are row-major. Parameters are inputs, read when the kernel runs. */
#pragma once

#include "graph/core/qlinear.h"
#include "simq/core/kernel_util.h"

/* One operand of a run: its view and the views of its parameters (rank -1 if absent). */
struct qc_qlinear_operand {
    const struct qc_view *value, *scale, *zero_point;
};
struct qc_qlinear_operand qc_qlinear_at(const struct qc_run *r, const struct qc_qlinear_places *p);

/* Return the parameter of channel c, or the only one. If absent: scale 1, zero point 0. A float16 scale is widened. */
float qc_qlinear_scale(const struct qc_view *v, size_t c);
int32_t qc_qlinear_zero(const struct qc_view *v, size_t c);

/* Returns scale and zero point of an operand. */
struct qc_affine qc_qlinear_affine(const struct qc_qlinear_operand *o, size_t c);

/* Locates the operand and the result of a function of one operand. Returns the corresponding float node, whose
   inputs are stored in `inputs`. */
struct qc_qlinear_function {
    struct qc_qlinear_places x, y;
};
struct qc_node qc_qlinear_function(struct qc_qlinear_function *out, qc_id inputs[2], const struct qc_prepare *p);

static inline int32_t qc_byte_at(const struct qc_view *v, size_t i)
{
    return v->dtype == QC_I8 ? ((const int8_t *)v->data)[i] : ((const uint8_t *)v->data)[i];
}

/* Converts a level to a byte. */
static inline uint8_t qc_byte_of(float q)
{
    return (uint8_t)(int32_t)q;
}
