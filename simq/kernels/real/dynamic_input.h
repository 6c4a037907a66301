// SPDX-License-Identifier: Apache-2.0
/* What ONNX's DynamicQuantizeLinear makes of numbers: uint8, by their own extremes and 0. */
#pragma once

#include <stddef.h>

#include "arith/params.h"

struct qc_affine qc_dynamic_parameters(const float *x, size_t n);
/* y[n]: scale * (q - zero point) of each. y may be x. */
void qc_dynamic_round(float *y, const float *x, size_t n);
