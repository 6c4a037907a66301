// SPDX-License-Identifier: Apache-2.0
/* Maps an element of a quantized tensor to its scale: one for all, one per channel, or one per block. With blocks of
   b along an axis, the scales are arranged as a tensor of the same shape with size ceil(size / b) along that axis,
   as in ONNX's DequantizeLinear of opset 21. */
#pragma once

#include "graph/core/graph.h"

struct qc_scale_layout {
    size_t count;       /* of scales */
    size_t size, inner; /* size of the axis; elements after it */
    size_t block;       /* 0: no blocks */
    size_t blocks;      /* along the axis */
};

/* For any tensor of a fixed shape. s: bound or not; with one scale per tensor, axis is ignored. */
struct qc_scale_layout qc_scale_layout_of(const struct qc_qparams *s, const struct qc_shape *shape, int axis);

/* Returns the index of the scale of element i, in row-major order. */
static inline size_t qc_scale_at(const struct qc_scale_layout *l, size_t i)
{
    if (l->count == 1) return 0;
    const size_t row = i / l->inner;
    if (!l->block) return row % l->size;
    return (row / l->size * l->blocks + row % l->size / l->block) * l->inner + i % l->inner;
}

/* Returns the shape of the scales: for blocks as above, else [count]. */
struct qc_shape qc_scale_shape(const struct qc_qparams *s, const struct qc_shape *shape, int axis);
