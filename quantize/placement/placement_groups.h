// SPDX-License-Identifier: Apache-2.0
/* What a measured placement (quantize/placement/placement.h) moves between integers and float in one step. */
#pragma once

#include "quantize/pipeline_state.h"

/* An operator that a pattern takes, with what is matched with it. */
struct qc_placed_op {
    const char *name; /* of the node, or of its result */
    size_t skip_count;
    const char **skip; /* globs that leave it in float */
};

struct qc_placement_group {
    const char *what; /* "Conv 1x1", "Conv 32x16x1x1", "connected: Conv 1x1, Add" */
    size_t op_count;
    bool *has;     /* [op_count of the placement] */
    uint64_t work; /* multiply-adds, as far as they are known */
};

struct qc_placement_groups {
    size_t op_count, group_count;
    struct qc_placed_op *ops;
    struct qc_placement_group *groups;
};

/* p: has run, with everything in integers that can be. Groups are, in this order: kinds of layers (the operator, the
   window of a convolution, its groups); operators that are connected in integers, those of equal structure together;
   layers of equal weight shapes. Of each the one with most work comes first; no two groups are equal. Memory from a. */
bool qc_placement_groups_find(struct qc_placement_groups *out, const struct qc_pipeline *p, struct qc_arena *a,
                              struct qc_status *st);

/* Which of these operators another pipeline, which has run, leaves in float: *in_float is [op_count], from a. */
bool qc_placement_of(bool **in_float, const struct qc_placement_groups *g, const struct qc_pipeline *p,
                     struct qc_arena *a, struct qc_status *st);
