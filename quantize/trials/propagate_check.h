// SPDX-License-Identifier: Apache-2.0
/* --propagate is kept where it serves the outputs: the job without it is made too, and both are run on samples. What a
   quantizer sees behind the errors of others is nearer to what it will see, but ranges and biases that are fitted to
   it one by one can add up to less (docs/decisions/0018-propagate-keeps-activations.md). */
#pragma once

#include "quantize/pipeline_state.h"

/* The job without --propagate, from what was seen in the float network: p->unpropagated. p->simulated is not bound
   before and after. rounding: how weights are rounded by the moments m; NULL: to nearest. */
bool qc_plain_make(struct qc_pipeline *p, const struct qc_second_moments *m,
                   const struct qc_round_weights_options *rounding, struct qc_status *st);
/* Runs both; puts the one without --propagate in place, its weights rounded again where that pays, with a warning,
   where the other is not better for the outputs on both halves of the samples. */
bool qc_plain_or_propagated(struct qc_pipeline *p, struct qc_status *st);
void qc_plain_free(struct qc_plain *plain); /* NULL-safe */
