// SPDX-License-Identifier: Apache-2.0
/* A deliberate race between workers, which the thread sanitizer must report; otherwise its silence in other tests
   proves nothing. */
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/pool.h"

enum { WORKERS = 2 };

static unsigned long sum;
static atomic_uint here;

/* Workers wait for each other in a way that orders nothing, so that neither has ended before the other begins. */
static bool add(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    (void)user, (void)worker, (void)st;
    atomic_fetch_add_explicit(&here, 1, memory_order_relaxed);
    while (atomic_load_explicit(&here, memory_order_relaxed) < WORKERS) sched_yield();
    sum += item;
    return true;
}

int main(void)
{
    struct qc_status st = QC_STATUS_INIT;
    const bool ok = qc_pool_run(WORKERS, add, NULL, &(struct qc_pool_options){.workers = WORKERS}, &st);
    printf("%lu\n", sum); /* behind the end of the team: no race */
    return ok ? 0 : 1;
}
