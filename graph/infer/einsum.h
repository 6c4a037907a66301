// SPDX-License-Identifier: Apache-2.0
/* Einsum-28: the dimensions of the letters of an equation. */
#pragma once

#include "graph/core/infer.h"

enum { QC_EINSUM_INPUTS = 64, QC_EINSUM_LABELS = 52 + QC_RANK_MAX }; /* letters, and the dimensions of "..." */

struct qc_einsum {
    unsigned input_count;
    int rank[QC_EINSUM_INPUTS], result_rank;
    uint8_t label[QC_EINSUM_INPUTS][QC_RANK_MAX], result[QC_RANK_MAX];
    int64_t size[QC_EINSUM_LABELS]; /* size of each label; -2: not used; QC_FREE: not known */
};

/* For a node whose inputs have known ranks. Fails if the equation is malformed or does not fit the shapes. */
bool qc_einsum_of(struct qc_einsum *out, const struct qc_graph *g, const struct qc_node *n, struct qc_status *st);
