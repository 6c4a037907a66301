// SPDX-License-Identifier: Apache-2.0
/* The groups of operators that a measured placement (quantize/search/placement.c) changes in one step. */
#pragma once

#include "quantize/make/network.h"

/* An operator that a pattern matches, with the operators matched with it. */
struct qc_placed_op {
    const char *name; /* of the node, or of its result */
    size_t skip_count;
    const char **skip; /* globs that leave it in float */
};

struct qc_placement_group {
    const char *what; /* "Conv 1x1", "Conv 32x16x1x1", "connected: Conv 1x1, Add" */
    size_t op_count;
    bool *has;     /* [op_count of the placement] */
    uint64_t work; /* multiply-adds, as far as known */
};

struct qc_placement_groups {
    size_t op_count, group_count;
    struct qc_placed_op *ops;
    struct qc_placement_group *groups;
};

/* Finds the groups of p, which has run with as much as possible in integers. Groups are, in this order: kinds of layers
   (operator, window of a convolution, grouped or not); operators connected in integers, equal structures together;
   layers of equal weight shapes. Each sort is ordered by work, the most first. No two groups are equal. Memory from a.
 */
bool qc_placement_groups_find(struct qc_placement_groups *out, const struct qc_network *p, struct qc_arena *a,
                              struct qc_status *st);

/* Sets *in_float ([op_count], from a): which of these operators another pipeline, which has run, leaves in float. */
bool qc_placement_of(bool **in_float, const struct qc_placement_groups *g, const struct qc_network *p,
                     struct qc_arena *a, struct qc_status *st);
