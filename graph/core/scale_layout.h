// SPDX-License-Identifier: Apache-2.0
/* Which scale an element of a quantized tensor has: the one of all, that of its channel, or that of its block. In
   blocks of b along an axis scales lie like a tensor of the same shape with ceil(size / b) at that axis, as ONNX's
   DequantizeLinear of opset 21 has them. */
#pragma once

#include "graph/core/graph.h"

struct qc_scale_layout {
    size_t count;       /* of scales */
    size_t size, inner; /* of the axis; elements behind it */
    size_t block;       /* 0: none */
    size_t blocks;      /* of the axis */
};

/* For any tensor of a fixed shape. s: bound or not; with one scale per tensor the axis does not matter. */
struct qc_scale_layout qc_scale_layout_of(const struct qc_qparams *s, const struct qc_shape *shape, int axis);

/* The scale of element i, in row-major order. */
static inline size_t qc_scale_at(const struct qc_scale_layout *l, size_t i)
{
    if (l->count == 1) return 0;
    const size_t row = i / l->inner;
    if (!l->block) return row % l->size;
    return (row / l->size * l->blocks + row % l->size / l->block) * l->inner + i % l->inner;
}

/* The shape of the scales: of blocks as above, else [count]. */
struct qc_shape qc_scale_shape(const struct qc_qparams *s, const struct qc_shape *shape, int axis);
