// SPDX-License-Identifier: Apache-2.0
/* Warnings about the choice of samples: too few of them, or samples that serve twice. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"

/* Warns if one sample alone is calibrated on, and if --eval reads the data set that --data reads. samples: of
   --data, that were chosen; 0: there is no --data. Errors: memory. */
bool qc_warn_samples(struct qc_warnings *w, size_t samples, const struct qc_job_inputs *in, struct qc_arena *a,
                     struct qc_status *st);
