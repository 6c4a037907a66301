// SPDX-License-Identifier: Apache-2.0
/* What a job tells while it runs, and asks: whether to go on. Nothing is printed here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* phase: "calibrating" say, with done of count units through it; a phase begins with count 0. NULL: no phase is running
   (the last one has ended). false: stop the job, which ends with QC_INTERRUPTED. Calls come one at a time, from any
   thread of the job. */
typedef bool qc_progress_fn(void *user, const char *phase, size_t done, size_t count);

enum { QC_PHASE = 41 };

struct qc_progress {
    qc_progress_fn *tell; /* NULL: nobody listens */
    /* from here on what was collected is saved when the job is stopped: it has to be waited for; NULL */
    void (*saves)(void *user);
    void *user;
    char phase[QC_PHASE]; /* the job's */
};

/* All of them take NULL: nobody listens. */

/* Begins a phase; the name is cut to 40 characters. */
void qc_progress_phase(struct qc_progress *p, const char *fmt, ...) QC_PRINTF(2, 3);

/* A qc_pool_progress_fn; user is the struct qc_progress. false: stop. */
bool qc_progress_step(void *user, size_t done, size_t count);

void qc_progress_end(struct qc_progress *p);
void qc_progress_saves(struct qc_progress *p);

/* Between phases. Errors: QC_INTERRUPTED. */
bool qc_progress_check(struct qc_progress *p, struct qc_status *st);
