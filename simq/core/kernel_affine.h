// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: ops that compute on centred integers of one scale per operand and round once into their result qparams.
 */
#pragma once

#include "simq/core/kernel.h"

/* The kernel that does this node on affine values, or NULL: then it is dequantize, the real op, quantize, each in
 * float32. */
const struct qc_kernel *qc_affine_kernel(const struct qc_node *n, unsigned input_count, const struct qc_scales *in,
                                         const struct qc_scales *out);
