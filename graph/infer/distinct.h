// SPDX-License-Identifier: Apache-2.0
/* The distinct elements of a tensor, or its distinct slices along an axis (ONNX Unique). */
#pragma once

#include "base/arena.h"
#include "graph/types/tensor.h"

enum qc_distinct_order { QC_BY_VALUE, QC_BY_APPEARANCE };

struct qc_distinct {
    size_t items;     /* elements, or slices */
    size_t count;     /* number of distinct items */
    int64_t *first;   /* [count] first occurrence of each */
    int64_t *repeats; /* [count] number of occurrences */
    int64_t *inverse; /* [items] index among the distinct items */
};

/* axis -1: elements in row-major order. Slices are compared element by element. NaN is larger than every number and
   equal to none. Arrays are in the arena. */
bool qc_distinct_of(struct qc_distinct *out, const struct qc_tensor *t, int axis, enum qc_distinct_order order,
                    struct qc_arena *a, struct qc_status *st);
