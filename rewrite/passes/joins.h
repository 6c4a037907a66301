// SPDX-License-Identifier: Apache-2.0
/* Inside rewrite/: JOIN ops (Concat) whose inputs keep scales of their own.

   One set of qparams for all inputs is right where something quantized reads the result: it is rounded to one scale in
   any case. A join that only leads to outputs of the model is read in float, and one scale would ruin inputs that are
   much smaller than others: what a detector puts together for its output, boxes in pixels and scores in [0, 1], would
   be left with scores of 0 or 1. So would the token of a vision transformer, a constant beside what a convolution makes
   of the image. How large an input is at most is known from the ops (graph/core/bounds.h). */
#pragma once

#include "rewrite/language/rewriter.h"

/* [node_count + 1], by id, in arena a: JOIN ops with an input that is known to be less than a sixteenth of what another
   one may be, and, with matches, whose result no match reads, not through ops that pass parameters on either. through:
   nor through matches of patterns that only join (an Add of constants whose result is read in float). matches NULL:
   whoever reads them. NULL and a status when memory is out. */
bool *qc_joins_apart(const struct qc_graph *g, const struct qc_rules *rules, const struct qc_matches *matches,
                     bool through, struct qc_arena *a, struct qc_status *st);
