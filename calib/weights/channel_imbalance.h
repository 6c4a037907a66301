// SPDX-License-Identifier: Apache-2.0
/* Weights whose channels differ too much for one scale. */
#pragma once

#include "graph/core/graph.h"

struct qc_channel_imbalance {
    size_t layers; /* number of layers with one weight scale and at least one small channel in four (zero channels
                      aside). In a small channel no element reaches 1/100 of the tensor's largest, so an 8-bit scale
                      leaves it about three levels */
    qc_id worst;   /* node with the largest share of such channels, 0: none */
    size_t small, channels; /* of the worst layer */
};

/* g: simulated, bound or not. Fails if memory is out. */
bool qc_weight_imbalance(struct qc_channel_imbalance *out, const struct qc_graph *g, struct qc_status *st);
