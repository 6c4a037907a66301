// SPDX-License-Identifier: Apache-2.0
/* A progress bar with rate and remaining time on standard error, and the poll for interrupts. */
#pragma once

#include "cli/options/command_line.h"
#include "quantize/interface/inputs.h"

/* Shows a bar with --progress always, or with auto on a terminal unless --quiet. In any case an interrupt of the
   program stops the job. */
bool qc_progress_bar_new(struct qc_progress **out, const struct qc_cli_options *o, struct qc_status *st);
void qc_progress_bar_free(struct qc_progress *p); /* NULL-safe; erases the bar */
