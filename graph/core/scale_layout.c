// SPDX-License-Identifier: Apache-2.0
#include "graph/core/scale_layout.h"

static int64_t blocks_of(int64_t size, int64_t block)
{
    return size / block + (size % block != 0);
}

struct qc_scale_layout qc_scale_layout_of(const struct qc_qparams *s, const struct qc_shape *shape, int axis)
{
    struct qc_scale_layout l = {.count = 1, .size = 1, .inner = 1, .blocks = 1};
    if (!s->per_channel || axis < 0 || axis >= shape->rank) return l;
    size_t outer = 1;
    for (int i = 0; i < axis; i++) outer *= (size_t)shape->dim[i];
    for (int i = axis + 1; i < shape->rank; i++) l.inner *= (size_t)shape->dim[i];
    l.size = (size_t)shape->dim[axis];
    l.block = (size_t)s->block;
    if (l.block) l.blocks = (size_t)blocks_of(shape->dim[axis], s->block);
    l.count = l.block ? outer * l.blocks * l.inner : l.size;
    return l;
}

struct qc_shape qc_scale_shape(const struct qc_qparams *s, const struct qc_shape *shape, int axis)
{
    struct qc_shape of = qc_shape_of(1, (const int64_t[]){(int64_t)s->count});
    if (!s->block) return of;
    of = *shape;
    of.dim[axis] = blocks_of(shape->dim[axis], s->block);
    return of;
}
