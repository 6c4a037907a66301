// SPDX-License-Identifier: Apache-2.0
/* What the values of a graph can be at most, from the ops alone: graph/core/bounds.def says it op by op. */
#pragma once

#include "graph/core/graph.h"

struct qc_bounds {
    double lo, hi; /* lo <= hi; -INFINITY, INFINITY when nothing is known */
};

/* Array [value_count + 1], by id, in arena a; NULL and a status when memory is out. Affine values have the bounds of
   the reals that they stand for, as long as their qparams are unbound (quantize is the identity then). Constants: their
   own extremes; not float32, or with NaN: nothing known. */
struct qc_bounds *qc_graph_bounds(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st);
