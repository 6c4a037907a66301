// SPDX-License-Identifier: Apache-2.0
/* Progress of a running job, and requests to stop it. Nothing is printed here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* phase: such as "calibrating"; NULL: no phase is running. `done` of `count` units are finished; a phase begins with
   count 0. Returns false to stop the job, which ends with QC_INTERRUPTED. Calls come one at a time, from any thread of
   the job. */
typedef bool qc_progress_fn(void *user, const char *phase, size_t done, size_t count);

enum { QC_PHASE = 41 };

struct qc_progress {
    qc_progress_fn *tell; /* may be NULL */
    /* called when the job begins to save statistics on a stop, so that its end must be awaited; may be NULL */
    void (*saves)(void *user);
    void *user;
    char phase[QC_PHASE]; /* name of the current phase; set by the job */
};

/* p may be NULL in all of them. */

/* Begins a phase; the name is cut to 40 characters. */
void qc_progress_phase(struct qc_progress *p, const char *fmt, ...) QC_PRINTF(2, 3);

/* A qc_pool_progress_fn; user is the struct qc_progress. Returns false to stop. */
bool qc_progress_step(void *user, size_t done, size_t count);

void qc_progress_end(struct qc_progress *p);
void qc_progress_saves(struct qc_progress *p);

/* Call between phases. Fails with QC_INTERRUPTED if the job is to stop. */
bool qc_progress_check(struct qc_progress *p, struct qc_status *st);
