// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: ops that compute on centred integers with one scale per operand and round once into the qparams of
   the result. */
#pragma once

#include "simq/core/kernel.h"

/* Returns the kernel that computes this node on affine values. Returns NULL if there is none: the node is then
   dequantize, the real op and quantize, each in float32. */
const struct qc_kernel *qc_affine_kernel(const struct qc_node *n, unsigned input_count, const struct qc_scales *in,
                                         const struct qc_scales *out);
