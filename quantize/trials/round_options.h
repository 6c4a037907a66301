// SPDX-License-Identifier: Apache-2.0
/* How weights are rounded and biases corrected, and from which moments. */
#pragma once

#include "quantize/pipeline_state.h"

/* What the options say of weights and biases: is the bias added behind the accumulator's narrowing; are biases
   corrected (an accumulator that takes no bias takes no correction either); does either change a constant. */
bool qc_narrows_bias(const struct qc_options *o);
bool qc_corrects_bias(const struct qc_options *o);
bool qc_round_weightss(const struct qc_options *o);
struct qc_round_weights_options qc_round_weights_options_of(const struct qc_pipeline *p);

/* Second moments for the simulated graph at hand; NULL: none. */
const struct qc_second_moments *qc_moments_of(const struct qc_pipeline *p);
