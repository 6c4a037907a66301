// SPDX-License-Identifier: Apache-2.0
/* --target: options that a target sets where the user gives none (rewrite/language/target.h). */
#pragma once

#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

/* Stores a value as qc_options_set, without saying that it was given. */
typedef bool qc_option_set_fn(struct qc_options *o, enum qc_option option, const char *value, struct qc_status *st);

/* Reads o->target and sets its options in place of those of the target before it. Errors: as qc_target_load;
   QC_BAD_INPUT: an option that no target may set. */
bool qc_options_take_target(struct qc_options *o, qc_option_set_fn *set, struct qc_status *st);

/* Warns of options that were given and differ from what the target has. */
bool qc_warn_target_options(const struct qc_options *o, struct qc_warnings *w, struct qc_status *st);
