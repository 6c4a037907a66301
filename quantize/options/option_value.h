// SPDX-License-Identifier: Apache-2.0
/* What options say to calibration and measurements, and what is told of overflows. */
#pragma once

#include "calib/statistics/stream.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

/* Resolves the options. Fails with QC_USAGE for a --rounding or --accumulator that does not exist. progress: that of
   runs over data, or NULL. */
bool qc_settings_of(struct qc_settings *out, const struct qc_options *o, struct qc_progress *progress,
                    struct qc_status *st);

/* Warns for each of the three layers with most overflows of their accumulators, and once for the rest. bits: width of
   the accumulators, 0: 32. file: prefix of the warnings if several graphs ran, else NULL. */
void qc_warn_overflows(struct qc_warnings *w, const struct qc_overflows *o, unsigned bits, const char *file);

/* Returns [{"name", "overflows", "results", "bits"}], one for each layer whose accumulator can overflow. */
struct qc_json *qc_overflows_json(const struct qc_overflows *o);
