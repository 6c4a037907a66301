// SPDX-License-Identifier: Apache-2.0
/* Means of a window. A mean that also changes qparams is a requantization of the sum: QC_FROM_SUM. */
#pragma once

#include "arith/real_steps.h"

/* Returns the mean of n integers whose qparams stay: sum / n, half away from zero. n > 0. TFLite's AveragePool and
   PyTorch's pools compute it so. */
int32_t qc_average_away(int64_t sum, int64_t n);

/* Contract "onnx", AveragePool. Returns the saturated level RNE(f(f(sum / n) / scale) + zero). `sum` is the float32
   sum of n real numbers, added in order. Source: ONNX Runtime's NhwcQLinearAveragePool on x86-64. */
static QC_INLINE float qc_average_level(float sum, float n, float scale, float zero, float lo, float hi,
                                        const bool native)
{
    return qc_clamp(qc_round_even(sum / n / scale + zero, native), lo, hi);
}
