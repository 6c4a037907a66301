// SPDX-License-Identifier: Apache-2.0
/* Blocks that Col2Im assembles to an image. */
#pragma once

#include "graph/core/infer.h"

struct qc_blocks {
    int spatial;
    int64_t points, blocks; /* elements of a block; number of blocks */
    int64_t image[QC_RANK_MAX], block[QC_RANK_MAX], stride[QC_RANK_MAX], dilation[QC_RANK_MAX], pad_begin[QC_RANK_MAX];
    int64_t steps[QC_RANK_MAX]; /* blocks along each dimension */
};

/* For a node whose image and block shapes are constants. Fails if sizes or attributes are invalid. */
bool qc_blocks_of(struct qc_blocks *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);
