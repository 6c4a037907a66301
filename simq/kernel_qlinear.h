// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: what the kernels of ONNX's and ONNX Runtime's own quantized operators share. Elements are u8 or i8, views row-major; parameters
   are inputs like any other and read when the kernel runs. */
#ifndef QC_SIMQ_KERNEL_QLINEAR_H
#define QC_SIMQ_KERNEL_QLINEAR_H

#include "graph/qlinear.h"
#include "simq/kernel_util.h"

/* One operand of a run: its view and the views of its parameters (rank -1 when absent). */
struct qc_qlinear_operand {
    const struct qc_view *value, *scale, *zero_point;
};
struct qc_qlinear_operand qc_qlinear_at(const struct qc_run *r, const struct qc_qlinear_places *p);

/* Parameter of channel c (or the only one); absent: scale 1, zero point 0. A float16 scale is widened. */
float qc_qlinear_scale(const struct qc_view *v, size_t c);
int32_t qc_qlinear_zero(const struct qc_view *v, size_t c);

static inline int32_t qc_byte_at(const struct qc_view *v, size_t i)
{
    return v->dtype == QC_I8 ? ((const int8_t *)v->data)[i] : ((const uint8_t *)v->data)[i];
}

/* table[b] of a byte b: RNE(f(x / sy)) + zy saturated, for f32 numbers x[b] of the 256 stored bytes b (graph/qlinear.h: the result is of type t). */
void qc_qlinear_bytes(uint8_t table[256], const float x[256], enum qc_dtype t, float scale, int32_t zero_point);
/* x[b] = f(s * (q - z)) of the stored byte b of type t. */
void qc_qlinear_ramp(float x[256], enum qc_dtype t, float scale, int32_t zero_point);

/* A level as a byte. */
static inline uint8_t qc_byte_of(float q)
{
    return (uint8_t)(int32_t)q;
}

#endif
