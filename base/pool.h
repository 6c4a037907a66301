// SPDX-License-Identifier: Apache-2.0
/* Workers: items 0..count-1 are handed out in order to the threads of one OpenMP team; each worker is one thread with a
 * number of its own. */
#pragma once

#include <stddef.h>

#include "base/status.h"

/* Runs one item in worker `worker` (0 <= worker < workers). Must be safe beside the other workers. */
typedef bool qc_pool_fn(void *user, size_t item, unsigned worker, struct qc_status *st);

/* Told (from the calling worker, under a lock) how many items are finished; returns false to stop the run
 * (QC_INTERRUPTED). May be NULL. */
typedef bool qc_pool_progress_fn(void *user, size_t done, size_t count);

struct qc_pool_options {
    unsigned workers; /* >= 1; never more threads than items. Worker 0 is the calling thread; a thread that the system
                         refuses is done without, and so are all others inside of a caller's own parallel region. */
    qc_pool_progress_fn *progress;
    void *progress_user;
};

/* Runs fn for every item. On failure the error of the failed item with the smallest number wins; items after it may
   not have run, items before it have all run. Deterministic in everything but which worker takes which item.
   While a worker runs, OpenMP regions inside of it (a foreign kernel's) have one thread; worker threads block all
   signals, so handlers run in the caller's thread. Several threads may call at once; each has a team of its own, which
   OpenMP keeps for its next call. A process may fork afterwards. */
bool qc_pool_run(size_t count, qc_pool_fn *fn, void *user, const struct qc_pool_options *options, struct qc_status *st);

/* Loops over large memory - weights put in order, memory that is cleared -, far from who knows how many workers there
   are: a thread says it once for all that it calls. Returns what was said before; at first, and in every worker, it
   is 1. */
unsigned qc_pool_share(unsigned workers);
/* Runs fn for every item, by the workers that the calling thread has said, or alone. An item must do no harm when it is
   run twice: it cannot fail, and where a team cannot be had all items are run again. */
typedef void qc_pool_loop_fn(void *user, size_t item);
void qc_pool_loop(size_t count, qc_pool_loop_fn *fn, void *user);
/* Sets memory to 0 likewise. */
void qc_pool_clear(void *to, size_t bytes);

/* Holds OpenMP regions that the calling thread begins (a foreign kernel's) to one thread; returns what was before,
   for qc_pool_release. */
int qc_pool_hold(void);
void qc_pool_release(int before);

/* Processors this process may run on; at least 1. */
unsigned qc_pool_cores(void);
