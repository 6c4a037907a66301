// SPDX-License-Identifier: Apache-2.0
/* Constants in a form of fewer bytes, for a file that would be larger than its model. Runtimes compute them again when
   they load the file. */
#pragma once

#include "graph/core/rebuild.h"
#include "rewrite/passes/simulate.h"

/* Starts a graph in which values of g that constants determine are constants. Free *r, also after a failure. */
bool qc_fold_values(struct qc_rebuild *r, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st);

/* Replaces large constants of *g by the nodes of `source` that compute the same bits from fewer bytes, and then
   float32 constants whose numbers float16 has by a Cast of these. Names of values stay. Replaces *g, which stays
   unchanged on failure. */
bool qc_unfold_constants(struct qc_graph **g, const struct qc_graph *source, qc_eval_fn *eval, struct qc_status *st);
