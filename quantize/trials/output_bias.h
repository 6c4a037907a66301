// SPDX-License-Identifier: Apache-2.0
/* Biases that make the mean error at the outputs right (docs/decisions/0037-biases-of-the-outputs.md). */
#pragma once

#include "quantize/pipeline_state.h"

/* With --method auto and 64 units or more, where biases are corrected and sums have 32 bits: the layers that make the
   outputs take up the mean error there (calib/trials/output_means.h), in p->rounded; p->output_bias says what came of
   it. Errors: those of runs. */
bool qc_correct_output_biases(struct qc_pipeline *p, struct qc_status *st);
