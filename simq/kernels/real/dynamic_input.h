// SPDX-License-Identifier: Apache-2.0
/* Rounds numbers as ONNX's DynamicQuantizeLinear does: to uint8, with the range of their extremes and 0. */
#pragma once

#include <stddef.h>

#include "arith/params.h"

struct qc_affine qc_dynamic_parameters(const float *x, size_t n);
/* y[n]: scale * (q - zero point) of each number. y may be x. */
void qc_dynamic_round(float *y, const float *x, size_t n);
