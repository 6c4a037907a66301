// SPDX-License-Identifier: Apache-2.0
/* Whether options agree with each other and with the inputs, and short questions about several of them. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/options/options.h"

/* The value of --benchmark that measures in ONNX Runtime for Python. */
#define QC_BENCHMARK_OWN "onnxruntime"

/* Fails with QC_USAGE if options and inputs of 'quantize' contradict each other; the message says what to do. */
bool qc_options_agree(const struct qc_options *o, const struct qc_job_inputs *in, struct qc_status *st);

/* Returns true for --scale-channels awq, smooth and free. */
bool qc_options_scale(const struct qc_options *o);
