// SPDX-License-Identifier: Apache-2.0
/* Parts of outputs that a Concat joins. Boxes in pixels hide the error of the logits beside them, so the error of an
   output is that of its worst part. */
#pragma once

#include "graph/core/graph.h"
#include "simq/core/view.h"

/* A box of the elements of an output. */
struct qc_output_part {
    size_t output;
    qc_id value;                                  /* the input of the Concat, or what is moved to become it */
    qc_id join;                                   /* the Concat; 0: the output is not divided */
    int64_t first[QC_RANK_MAX], end[QC_RANK_MAX]; /* along each axis; end -1: to the last element */
};

struct qc_output_parts {
    size_t count;
    const size_t *first; /* [output_count + 1]: output o has parts first[o] to first[o + 1] - 1, at least one */
    const struct qc_output_part *of;
};

/* Finds the parts of the outputs of a float network, in arena a. They are the inputs of Concats that reach the output
   through operators that move elements and through arithmetic with constants, if the place of each is known. Constants
   are no parts. An output has at most QC_OUTPUT_PARTS; beyond it is not divided further. */
enum { QC_OUTPUT_PARTS = 32 };
bool qc_output_parts_of(struct qc_output_parts *out, const struct qc_graph *real, struct qc_arena *a,
                        struct qc_status *st);

/* Calls compare(user, r, x, n) with pairs of elements of a part. r and x: float32 views of the output of two graphs,
   row-major and of the same shape. */
typedef void qc_compare_fn(void *user, const float *r, const float *x, size_t n);
void qc_compare_part(const struct qc_output_part *p, const struct qc_view *r, const struct qc_view *x,
                     qc_compare_fn *compare, void *user);
