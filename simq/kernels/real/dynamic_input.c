// SPDX-License-Identifier: Apache-2.0
#include "simq/kernels/real/dynamic_input.h"

#include <math.h>

struct qc_affine qc_dynamic_parameters(const float *x, size_t n)
{
    float lo = 0, hi = 0;
    for (size_t i = 0; i < n; i++) {
        lo = x[i] < lo ? x[i] : lo;
        hi = x[i] > hi ? x[i] : hi;
    }
    const float scale = hi == lo ? 1.0f : (hi - lo) / 255.0f, zero = -lo / scale;
    return (struct qc_affine){.scale = scale,
                              .zero_point = (int32_t)nearbyintf(zero > 255 ? 255
                                                                : zero > 0 ? zero
                                                                           : 0)};
}

void qc_dynamic_round(float *y, const float *x, size_t n)
{
    const struct qc_affine p = qc_dynamic_parameters(x, n);
    for (size_t i = 0; i < n; i++)
        y[i] = p.scale * (float)(qc_quantize_one(x[i], p, (struct qc_levels){.lo = 0, .hi = 255}) - p.zero_point);
}
