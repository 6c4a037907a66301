// SPDX-License-Identifier: Apache-2.0
/* What the options say about integer arithmetic, for a plan. */
#pragma once

#include "calib/accumulator/fit_accumulator.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"
#include "simq/plan/plan.h"

/* --rounding, --accumulator and --lowering. Errors: QC_USAGE. */
bool qc_integer_options(struct qc_plan_options *out, const struct qc_options *o, struct qc_status *st);

/* --accumulator-bound, which the table of options has checked. */
enum qc_accumulator_bound qc_accumulator_bound(const struct qc_options *o);

/* A warning for each of the three layers whose accumulators of so many bits overflowed most, and one for the rest.
   file: NULL, or what the texts begin with where several graphs were run. */
void qc_warn_overflows(struct qc_warnings *w, const struct qc_overflows *o, unsigned bits, const char *file);

/* [{"name", "overflows", "results", "bits"}], one for each layer whose accumulator can leave its range. */
struct qc_json *qc_overflows_json(const struct qc_overflows *o);
