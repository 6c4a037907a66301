// SPDX-License-Identifier: Apache-2.0
/* A bar with rate and time left on standard error, and the poll for an interrupt. */
#pragma once

#include "cli/options/command_line.h"
#include "quantize/interface/progress.h"

/* Shows a bar with --progress always, or auto on a terminal unless --quiet; otherwise nothing. Either way an interrupt
   of the program stops the job. */
bool qc_progress_bar_new(struct qc_progress **out, const struct qc_cli_options *o, struct qc_status *st);
void qc_progress_bar_free(struct qc_progress *p); /* NULL-safe; takes the bar away */
