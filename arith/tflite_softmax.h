// SPDX-License-Identifier: Apache-2.0
/* Contract "tflite": the softmax of TensorFlow Lite's reference kernels on 8-bit integers (docs/numerics.md says how it
   was checked). Sources: tensorflow/lite/kernels/internal/reference/softmax.h and gemmlowp/fixedpoint. */
#ifndef QC_ARITH_TFLITE_SOFTMAX_H
#define QC_ARITH_TFLITE_SOFTMAX_H

#include "arith/fixed_point.h"

/* Softmax over rows of 8-bit integers. Prepared from beta and the input's scale; the result's parameters are the fixed
   ones. */
struct qc_tflite_softmax {
    int32_t multiplier, left_shift;
    int32_t diff_min; /* a number that is this far below the largest of its row has the result 0 */
};
/* input_scale, beta positive. */
struct qc_tflite_softmax qc_tflite_softmax_of(float input_scale, float beta);
/* y[n] from x[n], stored integers; y in [lowest, lowest + 255], in place is fine. */
void qc_tflite_softmax_row(const struct qc_tflite_softmax *s, int32_t *y, const int32_t *x, size_t n, int32_t lowest);

#endif
