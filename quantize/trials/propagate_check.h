// SPDX-License-Identifier: Apache-2.0
/* Keeps --propagate only if it improves the outputs: the job without it is made too, and both run on samples.
   Calibration on quantized inputs is closer to inference, but ranges and biases that are fitted one by one can be worse
   in total (docs/decisions/0018-propagate-keeps-activations.md). */
#pragma once

#include "quantize/pipeline_state.h"

/* Makes the job without --propagate, from the statistics of the float network: p->unpropagated. p->simulated is unbound
   before and after. rounding: how weights are rounded with the moments m; NULL: to nearest. */
bool qc_plain_make(struct qc_pipeline *p, const struct qc_second_moments *m,
                   const struct qc_round_weights_options *rounding, struct qc_status *st);
/* Runs both jobs. Unless --propagate gains on both halves of the samples, the job without it takes its place, with
   refined weights if these gain (quantize/trials/cross_rounding.h), and with a warning. */
bool qc_plain_or_propagated(struct qc_pipeline *p, struct qc_status *st);
void qc_plain_free(struct qc_plain *plain); /* NULL-safe */
