// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: what the kernels of ONNX's and ONNX Runtime's own quantized operators share. Elements are u8 or i8,
   views row-major; parameters are inputs like any other and read when the kernel runs. */
#pragma once

#include "graph/core/qlinear.h"
#include "simq/core/kernel_util.h"

/* One operand of a run: its view and the views of its parameters (rank -1 when absent). */
struct qc_qlinear_operand {
    const struct qc_view *value, *scale, *zero_point;
};
struct qc_qlinear_operand qc_qlinear_at(const struct qc_run *r, const struct qc_qlinear_places *p);

/* Parameter of channel c (or the only one); absent: scale 1, zero point 0. A float16 scale is widened. */
float qc_qlinear_scale(const struct qc_view *v, size_t c);
int32_t qc_qlinear_zero(const struct qc_view *v, size_t c);

/* Both, of an operand. */
struct qc_affine qc_qlinear_affine(const struct qc_qlinear_operand *o, size_t c);

/* A function of one operand: where it and the result are. The real node, whose inputs are in `inputs`. */
struct qc_qlinear_function {
    struct qc_qlinear_places x, y;
};
struct qc_node qc_qlinear_function(struct qc_qlinear_function *out, qc_id inputs[2], const struct qc_prepare *p);

static inline int32_t qc_byte_at(const struct qc_view *v, size_t i)
{
    return v->dtype == QC_I8 ? ((const int8_t *)v->data)[i] : ((const uint8_t *)v->data)[i];
}

/* A level as a byte. */
static inline uint8_t qc_byte_of(float q)
{
    return (uint8_t)(int32_t)q;
}
