// SPDX-License-Identifier: Apache-2.0
#include <stdatomic.h>
#include <time.h>

#include "base/pool.h"
#include "tests/check.h"

enum { ITEMS = 500 };

struct job {
    atomic_uint runs[ITEMS];
    atomic_uint busy[8]; /* per worker: two items at once in one worker would show */
    atomic_uint overlaps, strangers;
    unsigned workers;
    size_t fails_at, fails_also;
};

static bool item(void *user, size_t i, unsigned worker, struct qc_status *st)
{
    struct job *j = user;
    if (worker >= j->workers) {
        atomic_fetch_add(&j->strangers, 1);
        return true;
    }
    if (atomic_fetch_add(&j->busy[worker], 1)) atomic_fetch_add(&j->overlaps, 1);
    atomic_fetch_add(&j->runs[i], 1);
    if (i % 7 == 0) {
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    }
    atomic_fetch_sub(&j->busy[worker], 1);
    if (i == j->fails_at || i == j->fails_also) return qc_fail(st, QC_BAD_INPUT, "item %zu", i);
    return true;
}

Test(pool, every_item_runs_once)
{
    for (unsigned workers = 1; workers <= 8; workers++) {
        static struct job j;
        memset(&j, 0, sizeof j);
        j.workers = workers;
        j.fails_at = j.fails_also = ITEMS;
        MUST(qc_pool_run(ITEMS, item, &j, &(struct qc_pool_options){.workers = workers}, ST));
        for (size_t i = 0; i < ITEMS; i++) cr_assert_eq(atomic_load(&j.runs[i]), 1);
        cr_assert_eq(atomic_load(&j.overlaps), 0);
        cr_assert_eq(atomic_load(&j.strangers), 0);
    }
}

Test(pool, the_smallest_failed_item_wins)
{
    for (unsigned workers = 1; workers <= 4; workers++) {
        for (int round = 0; round < 20; round++) {
            static struct job j;
            memset(&j, 0, sizeof j);
            j.workers = workers;
            j.fails_at = 42;
            j.fails_also = 43;
            cr_assert_not(qc_pool_run(ITEMS, item, &j, &(struct qc_pool_options){.workers = workers}, ST));
            MUST_HOLD(strcmp(failure.message, "item 42") == 0, failure.code == QC_BAD_INPUT);
            for (size_t i = 0; i <= 42; i++) cr_assert_eq(atomic_load(&j.runs[i]), 1);
            cr_assert_eq(atomic_load(&j.runs[ITEMS - 1]), 0, "work went on after a failure");
        }
    }
}

static bool silent_failure(void *user, size_t i, unsigned worker, struct qc_status *st)
{
    (void)user, (void)i, (void)worker, (void)st;
    return false;
}

Test(pool, a_failure_without_a_reason_is_still_a_failure)
{
    struct qc_status st = QC_STATUS_INIT;
    cr_assert_not(qc_pool_run(3, silent_failure, NULL, &(struct qc_pool_options){.workers = 2}, &st));
    cr_assert_neq(st.code, QC_OK);
}

struct watch {
    size_t calls, last, stop_at;
    bool wrong;
};

static bool watch(void *user, size_t done, size_t count)
{
    struct watch *w = user;
    w->calls++;
    if (done != w->last + 1 || count != ITEMS) w->wrong = true;
    w->last = done;
    return done < w->stop_at;
}

Test(pool, progress_counts_up_and_can_stop_the_run)
{
    static struct job j;
    j.workers = 3;
    j.fails_at = j.fails_also = ITEMS;
    struct watch w = {.stop_at = SIZE_MAX};
    struct qc_pool_options o = {.workers = 3, .progress = watch, .progress_user = &w};
    MUST(qc_pool_run(ITEMS, item, &j, &o, ST));
    cr_assert_eq(w.calls, ITEMS);
    cr_assert_not(w.wrong);

    w = (struct watch){.stop_at = 10};
    REFUSES(qc_pool_run(ITEMS, item, &j, &o, ST), QC_INTERRUPTED, "");
    cr_assert_eq(w.calls, 10, "told again after it said stop");
}

Test(pool, nothing_to_do)
{
    MUST(qc_pool_run(0, silent_failure, NULL, &(struct qc_pool_options){.workers = 4}, ST));
    cr_assert_geq(qc_pool_cores(), 1);
}

static void count_item(void *user, size_t i)
{
    atomic_fetch_add(&((atomic_uint *)user)[i], 1);
}

static bool loop_inside(void *user, size_t i, unsigned worker, struct qc_status *st)
{
    (void)i, (void)worker, (void)st;
    qc_pool_loop(ITEMS, count_item, user);
    return true;
}

Test(pool, a_loop_runs_every_item_by_whatever_workers_are_said)
{
    for (unsigned workers = 0; workers <= 4; workers++) {
        static atomic_uint runs[ITEMS];
        memset(runs, 0, sizeof runs);
        cr_assert_eq(qc_pool_share(workers), 1);
        qc_pool_loop(ITEMS, count_item, runs);
        MUST(qc_pool_run(2, loop_inside, runs, &(struct qc_pool_options){.workers = 2}, ST));
        cr_assert_eq(qc_pool_share(1), workers ? workers : 1);
        for (size_t i = 0; i < ITEMS; i++) cr_assert_eq(atomic_load(&runs[i]), 3);
    }
}

Test(pool, memory_is_cleared_to_its_end_and_no_further)
{
    enum { MOST = (2 << 20) + 100 };
    static char memory[MOST + 1];
    const size_t sizes[] = {0, 1, 1000, (1 << 19) - 1, 1 << 19, (1 << 20) + 77, MOST};
    qc_pool_share(3);
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        memset(memory, 1, sizeof memory);
        qc_pool_clear(memory, sizes[k]);
        size_t left = 0;
        for (size_t i = 0; i < sizes[k]; i++) left += memory[i] != 0;
        cr_expect_eq(left, 0, "of %zu", sizes[k]);
        cr_expect_eq(memory[sizes[k]], 1, "of %zu", sizes[k]);
    }
    qc_pool_share(1);
}
