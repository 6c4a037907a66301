// SPDX-License-Identifier: Apache-2.0
/* Weights that one scale does not fit. */
#pragma once

#include "graph/core/graph.h"

struct qc_channel_imbalance {
    size_t layers; /* with a weight of one scale in which at least one in four output channels (zero ones apart) is
                      small: no element reaches 1/100 of the largest of the tensor, so that an 8-bit scale leaves it
                      some three levels */
    qc_id worst;   /* node with the largest share of such channels, 0: none */
    size_t small, channels; /* of the worst one */
};

/* g: simulated, before or after parameters are bound. Errors: no memory. */
bool qc_weight_imbalance(struct qc_channel_imbalance *out, const struct qc_graph *g, struct qc_status *st);
