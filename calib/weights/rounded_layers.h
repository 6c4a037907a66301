// SPDX-License-Identifier: Apache-2.0
/* Layers that were rounded already, for the same network with other options: what a layer's rounding depends on (its
   weights, their scales, the step of its input, the moments of the same statistics) is often what it was. */
#pragma once

#include "calib/weights/round_weights_parts.h"

/* For one collection of statistics and one set of options but for the types of layers. Thread safe. */
struct qc_rounded_layers;
bool qc_rounded_layers_new(struct qc_rounded_layers **out, struct qc_status *st);
void qc_rounded_layers_free(struct qc_rounded_layers *r); /* NULL-safe */

/* Fills what qc_round_weights_solve fills where the layer is known; *known says whether. */
bool qc_rounded_layers_recall(bool *known, struct qc_round_weights_layer *l, struct qc_rounded_layers *r,
                              struct qc_status *st);
/* Keeps a copy of what was solved. */
bool qc_rounded_layers_keep(struct qc_rounded_layers *r, const struct qc_round_weights_layer *l, struct qc_status *st);
