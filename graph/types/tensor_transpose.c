// SPDX-License-Identifier: Apache-2.0
#include "graph/types/tensor_transpose.h"

#include <string.h>

/* Tiles keep both matrices in the cache. */
enum { TILE = 32 };

bool qc_tensor_is_transposed(const struct qc_tensor *a, const struct qc_tensor *b)
{
    if (a->dtype != b->dtype || a->shape.rank != 2 || b->shape.rank != 2) return false;
    const size_t rows = (size_t)a->shape.dim[0], columns = (size_t)a->shape.dim[1], size = qc_dtype_size(a->dtype);
    if ((size_t)b->shape.dim[0] != columns || (size_t)b->shape.dim[1] != rows) return false;
    const char *x = a->data, *y = b->data;
    for (size_t r0 = 0; r0 < rows; r0 += TILE)
        for (size_t c0 = 0; c0 < columns; c0 += TILE)
            for (size_t r = r0; r < rows && r < r0 + TILE; r++)
                for (size_t c = c0; c < columns && c < c0 + TILE; c++)
                    if (memcmp(x + (r * columns + c) * size, y + (c * rows + r) * size, size) != 0) return false;
    return true;
}

struct qc_tensor *qc_tensor_transposed(const struct qc_tensor *t, struct qc_status *st)
{
    const struct qc_shape shape = QC_SHAPE(t->shape.dim[1], t->shape.dim[0]);
    struct qc_tensor *out = qc_tensor_new(t->dtype, &shape, st);
    if (!out) return NULL;
    const size_t rows = (size_t)t->shape.dim[0], columns = (size_t)t->shape.dim[1], size = qc_dtype_size(t->dtype);
    const char *from = t->data;
    char *to = out->data;
    for (size_t r0 = 0; r0 < rows; r0 += TILE)
        for (size_t c0 = 0; c0 < columns; c0 += TILE)
            for (size_t r = r0; r < rows && r < r0 + TILE; r++)
                for (size_t c = c0; c < columns && c < c0 + TILE; c++)
                    memcpy(to + (c * rows + r) * size, from + (r * columns + c) * size, size);
    return out;
}
