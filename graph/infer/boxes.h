// SPDX-License-Identifier: Apache-2.0
/* NonMaxSuppression-11: which boxes stay. */
#pragma once

#include "base/arena.h"
#include "graph/types/tensor.h"

struct qc_boxes {
    const struct qc_tensor *boxes;  /* [N, boxes, 4] */
    const struct qc_tensor *scores; /* [N, classes, boxes] */
    bool centred;                   /* x, y, width, height instead of two corners */
    int64_t most;                   /* boxes of a class */
    double overlap;                 /* at most, as intersection over union */
    double least;                   /* score; -HUGE_VAL: none */
};

/* From the optional inputs; NULL: 0, 0, none. */
void qc_boxes_limits(struct qc_boxes *b, const struct qc_tensor *most, const struct qc_tensor *overlap,
                     const struct qc_tensor *least);

/* Image, class and box of each that stays: *list is [count][3], in the arena. */
bool qc_boxes_select(int64_t **list, size_t *count, const struct qc_boxes *b, struct qc_arena *a, struct qc_status *st);
