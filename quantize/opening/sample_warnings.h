// SPDX-License-Identifier: Apache-2.0
/* Warnings about the samples: too few, or the same ones for calibration and evaluation. */
#pragma once

#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"

/* Warns if calibration has one sample only, and if --eval reads the data set of --data. samples: number of chosen
   samples of --data, 0 without --data. Errors: memory; a malformed FILE:DATASET. */
bool qc_warn_samples(struct qc_warnings *w, size_t samples, const struct qc_job_inputs *in, struct qc_arena *a,
                     struct qc_status *st);
