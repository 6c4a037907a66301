// SPDX-License-Identifier: Apache-2.0
/* Cross-layer equalization (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias
   Correction", eq. 9-11) and, where a normalisation's gain and shift feed dense layers, SmoothQuant's migration of
   scales (Xiao et al. 2023, eq. 4, alpha 1/2).

   A *channel group* is a set of values that carry the same channels: a layer's result, what clamps, pools, leaky relus
   and additions of constants make of it, and what the layers behind it read. Channel c of a group may be stored divided
   by a positive number s[c]: rows of the weights that make it are divided, columns of the weights that read it
   multiplied. The function of the graph stays the same but for the rounding of float32 products. A channel that an op
   touches which does not commute with scales (an addition of two activations, a softmax, an output of the graph) has s
   = 1. Elements may be moved on the way (rewrite/passes/channel_layout.h): the channels of a value projection go
   through heads and the product with the scores, which adds up elements of one channel each, to the output projection,
   even where queries and keys come from the same product. A Clip whose bounds differ between channels afterwards
   becomes Relu (or Max) and Min with constants.

   Scales are chosen from the weights alone. Not from data: statistics that are collected in parts and merged have to be
   of one graph. */
#pragma once

#include "rewrite/passes/channels.h"

/* g: the normalised real graph. *out is a new graph with the same nodes, but for those clips, and other constants.
   Deterministic. Errors: no memory. */
bool qc_equalize(struct qc_graph **out, struct qc_equalized *info, const struct qc_graph *g, struct qc_status *st);
