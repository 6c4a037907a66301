// SPDX-License-Identifier: Apache-2.0
/* Bounds of the values of a graph, from its ops alone; graph/core/bounds.def lists them by op. */
#pragma once

#include "graph/core/graph.h"

struct qc_bounds {
    double lo, hi; /* lo <= hi; -INFINITY, INFINITY if unknown */
};

/* Returns an array [value_count + 1], by id, in arena a; NULL and a status if out of memory. Affine values have the
   bounds of the reals that they represent, as long as their qparams are unbound (quantize is then the identity).
   Constants have their own extremes; they are unknown if not float32 or with NaN. */
struct qc_bounds *qc_graph_bounds(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
