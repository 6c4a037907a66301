// SPDX-License-Identifier: Apache-2.0
/* Operators that stay in float because the target computes them faster so: the rules `cost`
   (rewrite/rules/costs.rules).

   The rules apply to activations and weights of 8 bits, for nodes that no option names. With QC_PREFER_SIZE they do not
   apply if a weight would stay in float. */
#pragma once

#include "rewrite/passes/partition.h"

/* Prefix of such a reason. */
#define QC_FASTER_IN_FLOAT "faster in float: "

/* *out: [node_count + 1], matches that options keep in integers; NULL if costs do not apply. */
bool qc_costs_find_fixed(const bool **out, const struct qc_partition *p, struct qc_status *st);

/* *reason: [node_count + 1], why the node stays in float, or NULL; in the arena. */
bool qc_costs_find(const char ***reason, const struct qc_graph *g, const struct qc_rules *rules,
                   const struct qc_partition_options *options, struct qc_arena *a, struct qc_status *st);
