// SPDX-License-Identifier: Apache-2.0
/* Means of a window. (A mean that changes its qparams by a multiplier is a requantize of the sum: QC_FROM_SUM.) */
#pragma once

#include "arith/real_steps.h"

/* Mean of n integers that keep their qparams (tflite's AveragePool and PyTorch-like pools of the same qparams): sum /
   n, half away from zero. n > 0. */
int32_t qc_average_away(int64_t sum, int64_t n);

/* Contract "onnx", AveragePool: `sum` is the float32 sum, in order, of n real numbers; f(f(sum / n) / scale), the zero
   point added before it is rounded, saturated: the level. ONNX Runtime's NhwcQLinearAveragePool on x86-64. */
static QC_INLINE float qc_average_level(float sum, float n, float scale, float zero, float lo, float hi,
                                        const bool native)
{
    return qc_clamp(qc_round_even(sum / n / scale + zero, native), lo, hi);
}
