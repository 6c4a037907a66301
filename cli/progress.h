// SPDX-License-Identifier: Apache-2.0
/* A bar with rate and time left on standard error, and the poll for an interrupt. Thread safe as qc_pool_progress_fn is called. */
#ifndef QC_CLI_PROGRESS_H
#define QC_CLI_PROGRESS_H

#include "quantize/options.h"

struct qc_progress;

/* Shows a bar with --progress always, or auto on a terminal unless --quiet; otherwise nothing. */
bool qc_progress_new(struct qc_progress **out, const struct qc_cli_options *o, struct qc_status *st);
void qc_progress_free(struct qc_progress *p); /* NULL-safe; takes the bar away */

/* Begins a phase, "calibrating" say; the name is copied and cut to 40 characters. */
void qc_progress_phase(struct qc_progress *p, const char *fmt, ...) QC_PRINTF(2, 3);

/* A qc_pool_progress_fn; user is the struct qc_progress. False when the program was interrupted. */
bool qc_progress_step(void *user, size_t done, size_t count);

/* Takes the bar away before other output. */
void qc_progress_end(struct qc_progress *p);

#endif
