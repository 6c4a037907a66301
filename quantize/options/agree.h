// SPDX-License-Identifier: Apache-2.0
/* Whether options agree with each other and with the inputs, and short questions about several of them. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/options/options.h"

/* Fails with QC_USAGE if options and inputs of 'quantize' contradict each other; the message says what to do. */
bool qc_options_agree(const struct qc_options *o, const struct qc_job_inputs *in, struct qc_status *st);

/* Returns true for --scale-channels awq, smooth and free. */
bool qc_options_scale(const struct qc_options *o);

/* The bias is added after the accumulator is narrowed. */
bool qc_narrows_bias(const struct qc_options *o);
/* Biases are corrected: not if they are added after narrowing. */
bool qc_corrects_bias(const struct qc_options *o);
/* Weights are compensated, or biases corrected. */
bool qc_rounds_weights(const struct qc_options *o);
