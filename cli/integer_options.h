// SPDX-License-Identifier: Apache-2.0
/* What the command line says about integer arithmetic, for a plan. */
#ifndef QC_CLI_INTEGER_OPTIONS_H
#define QC_CLI_INTEGER_OPTIONS_H

#include "cli/options.h"
#include "cli/warnings.h"
#include "simq/plan.h"

/* --rounding and --accumulator. Errors: QC_USAGE. */
bool qc_integer_options(struct qc_plan_options *out, const struct qc_cli_options *o, struct qc_status *st);

/* A warning for each step whose accumulator left its range; counts[k] of accumulator k of the plan. */
void qc_warn_overflows(struct qc_warnings *w, const struct qc_plan *p, const uint64_t *counts, unsigned bits);

#endif
