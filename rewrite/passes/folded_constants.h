// SPDX-License-Identifier: Apache-2.0
/* Integers of weights that several graphs quantize alike: made once, and shared by all of them. */
#ifndef QC_REWRITE_PASSES_FOLDED_CONSTANTS_H
#define QC_REWRITE_PASSES_FOLDED_CONSTANTS_H

#include "rewrite/passes/simulate.h"

struct qc_folded_constants;

bool qc_folded_constants_new(struct qc_folded_constants **out, struct qc_status *st);
void qc_folded_constants_free(struct qc_folded_constants *f); /* NULL-safe */

/* As qc_to_integer. Not by several threads at the same time. */
bool qc_to_integer_shared(struct qc_graph **out, struct qc_folded_constants *f, const struct qc_graph *g,
                          qc_eval_fn *eval, struct qc_status *st);

/* What a Quantize of a constant gives, out of those that are known where it is one of them; f: NULL for none. */
bool qc_folded_constants_take(struct qc_tensor **out, struct qc_folded_constants *f, const struct qc_graph *g,
                              qc_id node, qc_eval_fn *eval, struct qc_status *st);

#endif
