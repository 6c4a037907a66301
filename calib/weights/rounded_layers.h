// SPDX-License-Identifier: Apache-2.0
/* Cache of rounded layers, for the same network with other options: a layer's weights, scales, input step and moments
   often stay the same. */
#pragma once

#include "calib/weights/round_weights_parts.h"

/* Holds for one collection of statistics and one set of options, except the types of layers. Thread safe. */
struct qc_rounded_layers;
bool qc_rounded_layers_new(struct qc_rounded_layers **out, struct qc_status *st);
void qc_rounded_layers_free(struct qc_rounded_layers *r); /* NULL-safe */

/* If the layer is known, sets *known and fills in what qc_round_weights_solve does. */
bool qc_rounded_layers_recall(bool *known, struct qc_round_weights_layer *l, struct qc_rounded_layers *r,
                              struct qc_status *st);
/* Keeps a copy of a solved layer. */
bool qc_rounded_layers_keep(struct qc_rounded_layers *r, const struct qc_round_weights_layer *l, struct qc_status *st);
