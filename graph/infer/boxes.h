// SPDX-License-Identifier: Apache-2.0
/* NonMaxSuppression-11: selection of boxes. */
#pragma once

#include "base/arena.h"
#include "graph/types/tensor.h"

struct qc_boxes {
    const struct qc_tensor *boxes;  /* [N, boxes, 4] */
    const struct qc_tensor *scores; /* [N, classes, boxes] */
    bool centred;                   /* x, y, width, height instead of two corners */
    int64_t most;                   /* largest number of boxes per class */
    double overlap;                 /* largest intersection over union */
    double least;                   /* least score; -HUGE_VAL: none */
};

/* Reads the limits from the optional inputs; for NULL: 0, 0, none. */
void qc_boxes_limits(struct qc_boxes *b, const struct qc_tensor *most, const struct qc_tensor *overlap,
                     const struct qc_tensor *least);

/* Gives image, class and box of each selected box: *list is [count][3], in the arena. */
bool qc_boxes_select(int64_t **list, size_t *count, const struct qc_boxes *b, struct qc_arena *a, struct qc_status *st);
