// SPDX-License-Identifier: Apache-2.0
/* Caches of a decoder: inputs to which a Concat appends the keys or values of a step. */
#pragma once

#include "graph/core/uses.h"

struct qc_cache {
    const struct qc_node *joins; /* the Concat */
    int axis;                    /* along which it appends */
};

/* Finds the Concat that appends to an input of at least three axes, possibly behind conversions. Other readers may only
   ask for the shape. Returns false if there is none, or if its axis is the first or not free. */
bool qc_cache_of(struct qc_cache *out, const struct qc_uses *u, qc_id input);

/* Returns the axis of the heads; -1 if the cache does not show them. */
int qc_cache_heads(const struct qc_graph *g, const struct qc_cache *c);
