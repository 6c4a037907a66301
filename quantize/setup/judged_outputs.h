// SPDX-License-Identifier: Apache-2.0
/* Outputs that rounding reorders. TopK, NonMaxSuppression and ArgMax choose rows by their size, so a rounded network
   has other rows at the same places, and the error of such an output says nothing. It is judged by the values that
   enter the ordering and by those from which rows are taken: these become outputs of the job's graphs, but not of the
   file. */
#pragma once

#include "graph/core/graph.h"

/* Makes a graph with these values as further outputs and marks the outputs that are not judged (enum qc_judging).
   *out: NULL if no output is reordered. An output with a product after the ordering stays as it is: the error of that
   product must count. All values of g that nodes compute have names. */
bool qc_judge_before_ordering(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st);

/* Makes a graph with the model's outputs alone; *out: NULL if g has no others. */
bool qc_drop_judged(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st);
