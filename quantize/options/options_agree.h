// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/options/options.h"

/* Options and inputs of 'quantize' that are right one by one but not together, with what to do. Errors: QC_USAGE. */
bool qc_options_agree(const struct qc_options *o, const struct qc_job_inputs *in, struct qc_status *st);

/* Are scales of channels asked for by name, not left to measurement? */
bool qc_options_scale(const struct qc_options *o);
