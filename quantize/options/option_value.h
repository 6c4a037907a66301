// SPDX-License-Identifier: Apache-2.0
/* The options of integer arithmetic, for a plan. */
#pragma once

#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"
#include "simq/plan/plan.h"

/* The options of integer arithmetic, for a plan. */

/* Reads --rounding, --accumulator and --lowering. Fails with QC_USAGE. */
bool qc_integer_options(struct qc_plan_options *out, const struct qc_options *o, struct qc_status *st);

/* Warns for each of the three layers with most overflows of their accumulators, and once for the rest. bits: width of
   the accumulators, 0: 32. file: prefix of the warnings if several graphs ran, else NULL. */
void qc_warn_overflows(struct qc_warnings *w, const struct qc_overflows *o, unsigned bits, const char *file);

/* Returns [{"name", "overflows", "results", "bits"}], one for each layer whose accumulator can overflow. */
struct qc_json *qc_overflows_json(const struct qc_overflows *o);
