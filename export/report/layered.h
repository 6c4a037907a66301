// SPDX-License-Identifier: Apache-2.0
/* Draws a graph in layers from top to bottom: longest paths, barycentres, and least-squares positions in that order
   (Sugiyama, Tagawa, Toda 1981; pool-adjacent-violators for the positions). Deterministic. Time and memory grow with
   nodes and edges, not with the lengths of edges. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

struct qc_layered_node {
    double width;
    size_t input_count;
    const size_t *inputs; /* earlier nodes */
};

/* A polyline from the bottom of a node to the top of another. It bends only between layers and passes beside nodes in
   straight lines. point_count 0: the edge is too long and is omitted, so its reader should name its input. */
struct qc_layered_edge {
    size_t from, to, point_count;
    double *x, *y; /* [point_count] */
};

struct qc_layered {
    double width, height; /* everything lies in [0, width] x [0, height] */
    double *x, *y;        /* [count]: left upper corner of each node */
    size_t edge_count;
    struct qc_layered_edge *edges;
};

enum {
    QC_LAYERED_HEIGHT = 52,
    QC_LAYERED_PITCH = 88,
    QC_LAYERED_GAP = 16
}; /* of a node, from layer to layer, between neighbours */

/* nodes: [count] in topological order. *out is allocated in a. Fails if memory is out. */
bool qc_layered_new(struct qc_layered **out, const struct qc_layered_node *nodes, size_t count, struct qc_arena *a,
                    struct qc_status *st);
