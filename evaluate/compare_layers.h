// SPDX-License-Identifier: Apache-2.0
/* Matching values of two graphs that are the same layer. */
#pragma once

#include "calib/metrics/compare.h"

/* One layer: a result that exists in both graphs. */
struct qc_layer_pair {
    const char *name; /* name in the first graph, or in the second if the first has none; held by the graphs */
    enum qc_op op;    /* the op in the first graph */
    bool by_name;     /* else matched by order */
};

struct qc_layer_pairs {
    size_t count;
    struct qc_pair *values; /* [count], in the order of the second graph */
    struct qc_layer_pair *layers;
};

/* Matches the layers of two graphs. A layer is the float32 result of an op, or its stored form with one scale: the
   output of the requantize or quantize that stores the op's result, under that result's name. Graphs are float models
   as imported, or quantized ones in their produced form (evaluate/canonical_model.h).

   Layers of equal name and shape are pairs (an exporter's suffix "_float" is ignored). The rest are paired by the
   longest common sequence of layers with equal op and shape, which matches models whose names were lost. If one graph
   has a batch norm or a clamp (done by saturation) inside a layer, and the other as an op after it, that op's result is
   the layer's. Memory is from the arena. */
bool qc_match_layers(struct qc_layer_pairs *out, const struct qc_graph *first, const struct qc_graph *second,
                     struct qc_arena *a, struct qc_status *st);
