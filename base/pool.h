// SPDX-License-Identifier: Apache-2.0
/* Worker pool: items 0..count-1 are handed out in order to workers; each worker is one thread with a number of its own. */
#ifndef QC_BASE_POOL_H
#define QC_BASE_POOL_H

#include <stddef.h>

#include "base/status.h"

/* Runs one item in worker `worker` (0 <= worker < workers). Must be safe beside the other workers. */
typedef bool qc_pool_fn(void *user, size_t item, unsigned worker, struct qc_status *st);

/* Told (from the calling worker, under a lock) how many items are finished; returns false to stop the run (QC_INTERRUPTED). May be NULL. */
typedef bool qc_pool_progress_fn(void *user, size_t done, size_t count);

struct qc_pool_options {
    unsigned workers; /* >= 1; never more threads than items. Worker 0 is the calling thread; a thread that the system
                         refuses is done without. */
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Runs fn for every item. On failure the error of the failed item with the smallest number wins; items after it may
   not have run, items before it have all run. Deterministic in everything but which worker takes which item.
   While a worker runs, OpenMP (which the compute library uses) is held to one thread in it; worker threads block all
   signals, so handlers run in the caller's thread. */
bool qc_pool_run(size_t count, qc_pool_fn *fn, void *user, const struct qc_pool_options *options, struct qc_status *st);

/* Processors this process may run on; at least 1. */
unsigned qc_pool_cores(void);

#endif
