// SPDX-License-Identifier: Apache-2.0
/* Which values of two graphs are the same layer. */
#pragma once

#include "calib/metrics/compare.h"

/* One layer: a result that can be looked at in both graphs. */
struct qc_layer_pair {
    const char *name; /* in the first graph, or in the second where it has none there; text of the graphs */
    enum qc_op op;    /* that computes it in the first graph */
    bool by_name;     /* else by its place */
};

struct qc_layer_pairs {
    size_t count;
    struct qc_pair *values; /* [count], in the order of the second graph */
    struct qc_layer_pair *layers;
};

/* A layer is a result of an op in float32, or stored with one scale: then what a requantize or quantize stores of the
   op's result, under the name of that result. Graphs may be float models as imported, and quantized ones in their
   produced form (evaluate/canonical_model.h). Layers of one name and shape (an exporter's suffix "_float" aside) are
   pairs. Of those that are left, the longest common sequence of layers of equal op and shape: so a model whose names
   got lost is matched by its order. Where one graph has a batch norm or (because saturation does it) a clamp inside a
   layer and the other an op behind it, that op's result is the layer's. Memory from the arena. */
bool qc_match_layers(struct qc_layer_pairs *out, const struct qc_graph *first, const struct qc_graph *second,
                     struct qc_arena *a, struct qc_status *st);
