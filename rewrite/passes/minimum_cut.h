// SPDX-License-Identifier: Apache-2.0
/* The minimum cut of a network with capacities: vertices are divided between QC_CUT_SOURCE and QC_CUT_SINK so that the
   edges from the first side to the second have the least sum (maximum flow by Dinic's algorithm). Capacities are
   integers, so results are exact and the same on all machines. Everything is in the arena. */
#pragma once

#include "base/arena.h"

enum { QC_CUT_SOURCE, QC_CUT_SINK, QC_CUT_FIRST /* other vertices begin here */ };

/* The capacity of an edge that no cut may contain. */
#define QC_CUT_NEVER (INT64_MAX / 4)

struct qc_flow_cut;

/* vertices: with source and sink. Fails if out of memory, as does the next function. */
bool qc_cut_new(struct qc_flow_cut **out, size_t vertices, struct qc_arena *a, struct qc_status *st);
bool qc_cut_edge(struct qc_flow_cut *c, uint32_t from, uint32_t to, int64_t capacity, struct qc_status *st);

/* Returns the sum of the cut. Afterwards capacities are what the flow leaves of them: further edges may be added, and
   another call returns what they add to the sum. */
int64_t qc_cut_solve(struct qc_flow_cut *c);

/* Returns true if the vertex is on the side of the source. Of several minimum cuts it is the one with most vertices
   there. */
bool qc_cut_with_source(const struct qc_flow_cut *c, uint32_t vertex);
