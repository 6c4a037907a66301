// SPDX-License-Identifier: Apache-2.0
/* How weights are rounded and biases corrected, and from which moments. */
#pragma once

#include "quantize/pipeline_state.h"

/* Is the bias added after the accumulator is narrowed? Are biases corrected? (Not if the bias is added after
   narrowing.) Are weights compensated or biases corrected? */
bool qc_narrows_bias(const struct qc_options *o);
bool qc_corrects_bias(const struct qc_options *o);
bool qc_rounds_weights(const struct qc_options *o);
struct qc_round_weights_options qc_round_weights_options_of(const struct qc_pipeline *p);

/* Returns the second moments for p->simulated, or NULL. */
const struct qc_second_moments *qc_moments_of(const struct qc_pipeline *p);
