// SPDX-License-Identifier: Apache-2.0
/* Biases that make the mean right where it is used, kept where that serves the outputs
   (docs/decisions/0037-biases-where-they-are-used.md). */
#ifndef QC_QUANTIZE_TRIALS_USED_BIAS_H
#define QC_QUANTIZE_TRIALS_USED_BIAS_H

#include "quantize/pipeline_state.h"

/* With --propagate, where biases are corrected and sums have 32 bits: corrects p->rounded, runs it and what it was on
   samples, and leaves the better one in place. p->used_bias says what came of it. Errors: those of runs. */
bool qc_correct_used_biases(struct qc_pipeline *p, struct qc_status *st);

/* With --method auto and 64 units or more, where biases are corrected and sums have 32 bits: the layers that make the
   outputs take up the mean error there (calib/trials/output_means.h), in p->rounded; p->output_bias says what came of
   it. Errors: those of runs. */
bool qc_correct_output_biases(struct qc_pipeline *p, struct qc_status *st);

#endif
