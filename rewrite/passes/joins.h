// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: JOIN ops (Concat) whose inputs keep scales of their own.

   If a quantized op reads the result, all inputs have one set of qparams: the result has one scale in any case. A join
   that only leads to outputs of the model is read in float, and one scale would ruin inputs that are much smaller than
   others. A detector joins boxes in pixels and scores in [0, 1] for its output: the scores would become 0 or 1. A
   vision transformer joins a constant token and the results of a convolution on the image. Bounds of each input are
   derived from the ops (graph/core/bounds.h). */
#pragma once

#include "rewrite/language/rewriter.h"

/* Returns [node_count + 1], by id, in arena a: JOIN ops with an input whose bound is less than a sixteenth of another's
   and, with matches, whose result no match reads, also not through ops that pass parameters on. through: also not
   through matches of patterns that only join (an Add of constants whose result is read in float). matches NULL: readers
   do not count. Returns NULL and sets a status if memory is out. */
bool *qc_joins_apart(const struct qc_graph *g, const struct qc_rules *rules, const struct qc_matches *matches,
                     bool through, struct qc_arena *a, struct qc_status *st);
