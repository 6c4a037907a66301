// SPDX-License-Identifier: Apache-2.0
/* Cross-layer equalization (Nagel et al. 2019, "Data-Free Quantization Through Weight Equalization and Bias
   Correction", eq. 9-11) and, where a normalisation's gain and shift feed dense layers, SmoothQuant's migration of
   scales (Xiao et al. 2023, eq. 4, alpha 1/2).

   A *channel group* is a set of values that carry the same channels: the result of a layer, the results of clamps,
   pools, leaky relus and additions of constants on it, and the inputs of the layers after it. Channel c of a group may
   be stored divided by a positive number s[c]: rows of the weights that make it are divided, columns of the weights
   that read it multiplied. The function of the graph stays the same except for the rounding of float32 products. s = 1
   for channels that reach an op which does not commute with scales (an addition of two activations, a softmax, an
   output of the graph). Elements may be moved between layers (rewrite/passes/channel_layout.h): channels of a value
   projection pass through heads and the product with the scores, which sums elements of one channel each, to the output
   projection, even if one product computes queries, keys and values. A Clip whose bounds then differ between channels
   becomes Relu (or Max) and Min with constants.

   Scales are chosen from the weights alone, not from data: merged statistics must be of one graph. */
#pragma once

#include "rewrite/passes/channels.h"

/* g: the normalised real graph. *out: a new graph with the same nodes, except for those clips, and other constants.
   Deterministic. Fails if memory is out. */
bool qc_equalize(struct qc_graph **out, struct qc_equalized *info, const struct qc_graph *g, struct qc_status *st);
