// SPDX-License-Identifier: Apache-2.0
/* Places operators by estimated times: each match is computed in integers or in float, so that the sum of the times of
   operators (rewrite/passes/operator_times.h) and of conversions between both is least. That is a minimum cut:
   operators in integers are with the source, and values that are stored as integers.

   Of placements that are hardly slower than the float model, one with more weights in integers is preferred. Everything
   stays in integers if the network takes little time or gains little. Matches of free shapes stay in integers, too. */
#pragma once

#include "graph/core/uses.h"
#include "rewrite/passes/partition.h"

/* The matches to leave in float: (*real)[node_count + 1], by the node of a match; in p->arena. NULL: none. Sets
   p->placed_gain and placed_time. p: with matches, and with classes of all their values. fixed: [node_count + 1],
   matches that stay in integers. uses: of p->graph, or of the same graph with the shapes of samples. */
bool qc_place_by_time(const bool **real, struct qc_partition *p, const bool *fixed, const struct qc_uses *uses,
                      struct qc_status *st);
