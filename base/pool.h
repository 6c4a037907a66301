// SPDX-License-Identifier: Apache-2.0
/* Worker threads: one OpenMP team takes items 0..count-1 in order; every worker is one thread with its own number. */
#pragma once

#include <stddef.h>

#include "base/status.h"

/* Runs one item in worker `worker` (0 <= worker < workers). Must be safe to run concurrently. */
typedef bool qc_pool_fn(void *user, size_t item, unsigned worker, struct qc_status *st);

/* Called by a worker, under a lock, with the number of finished items; returns false to stop the run (QC_INTERRUPTED).
   May be NULL. */
typedef bool qc_pool_progress_fn(void *user, size_t done, size_t count);

struct qc_pool_options {
    unsigned workers; /* >= 1; never more threads than items. Worker 0 is the calling thread. Threads that the system
                         refuses are left out; so are all others inside a parallel region of the caller. */
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Runs fn for every item. If items fail, the error of the one with the smallest number is returned: all items before it
   have run, later ones may not have. The result does not depend on which worker takes which item. OpenMP regions inside
   a worker (of another library's kernels) have one thread. Worker threads block all signals but those of faults, so
   handlers run in the caller's thread. Several threads may call at once; each has its own team, which OpenMP keeps for
   the next call. A process may fork afterwards. */
bool qc_pool_run(size_t count, qc_pool_fn *fn, void *user, const struct qc_pool_options *options, struct qc_status *st);

/* Sets the number of workers for loops that the calling thread begins (qc_pool_loop, qc_pool_clear), so that code deep
   below, such as repacking weights, needs no parameter. Returns the previous number, which is 1 at first and in every
   worker. */
unsigned qc_pool_share(unsigned workers);
/* Runs fn for every item with the workers set by qc_pool_share, or alone. Items cannot fail and must be repeatable: if
   a team cannot be started, all items are run again. */
typedef void qc_pool_loop_fn(void *user, size_t item);
void qc_pool_loop(size_t count, qc_pool_loop_fn *fn, void *user);
/* Sets memory to 0 with the same workers. */
void qc_pool_clear(void *to, size_t bytes);

/* Limits OpenMP regions that the calling thread begins (in another library's kernels) to one thread. Returns the
   previous limit, for qc_pool_release. */
int qc_pool_hold(void);
void qc_pool_release(int before);

/* Returns the number of processors this process may run on, at least 1. */
unsigned qc_pool_cores(void);
