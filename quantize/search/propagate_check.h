// SPDX-License-Identifier: Apache-2.0
/* Keeps --propagate only if it improves the outputs: the job without it is made too, and both run on samples.
   Calibration on quantized inputs is closer to inference, but ranges and biases that are fitted one by one can be worse
   in total (docs/decisions/0018-propagate-keeps-activations.md). */
#pragma once

#include "quantize/make/make.h"

/* Runs both jobs. Unless --propagate gains (quantize/search/race.h), the job without it takes its place, with
   refined weights if these gain (quantize/search/cross_rounding.h), and with a warning. */
bool qc_plain_or_propagated(struct qc_network *net, struct qc_status *st);
