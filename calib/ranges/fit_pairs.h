// SPDX-License-Identifier: Apache-2.0
/* Scales of weights with a limit on sums of pairs (graph/core/pair_order.h): the smallest scales at which the weights,
   rounded to nearest, keep the limit. */
#pragma once

#include "graph/core/graph.h"

struct qc_pair_fit {
    const struct qc_graph *g;
    qc_id quantizer;                 /* of the weights; its pair_limit is not 0 */
    qc_id node;                      /* that multiplies the weights; 0: rows of the weight are contiguous */
    const struct qc_tensor *weights; /* float32 */
    int axis;                        /* of the scales in the weights */
};

/* Raises each scale as little as its rows need, in steps of 1/512. Adds the number of raised rows to *raised. Fails if
   memory is out. */
bool qc_fit_pairs(size_t *raised, float *scale, const int32_t *zero_point, const struct qc_pair_fit *fit,
                  struct qc_status *st);
