// SPDX-License-Identifier: Apache-2.0
/* Workers as OpenMP threads: nested use, concurrent use, and fewer threads than requested from the system. */
#define _GNU_SOURCE /* gettid */
#include <omp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

#include "base/pool.h"
#include "tests/check.h"

enum { ITEMS = 64, CALLERS = 4 };

struct seen {
    atomic_uint items, wrong, meeting;
    unsigned meet; /* the first items wait until so many workers are here, two seconds at most */
    atomic_uint workers[16];
};

static bool look(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    struct seen *s = user;
    int inner = 0;
    if ((unsigned)omp_get_thread_num() != worker) atomic_fetch_add(&s->wrong, 1);
#pragma omp parallel reduction(+ : inner)
    inner++;
    if (inner != 1 || omp_get_max_threads() != 1) atomic_fetch_add(&s->wrong, 1);
    if (item < s->meet) {
        atomic_fetch_add(&s->meeting, 1);
        for (int i = 0; i < 2000 && atomic_load(&s->meeting) < s->meet; i++)
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    atomic_fetch_add(&s->items, 1);
    atomic_fetch_add(&s->workers[worker], 1);
    return true;
}

static unsigned workers_of(struct seen *s)
{
    unsigned n = 0;
    for (size_t i = 0; i < sizeof s->workers / sizeof *s->workers; i++) n += atomic_load(&s->workers[i]) > 0;
    return n;
}

static bool run(struct seen *s, unsigned workers)
{
    return qc_pool_run(ITEMS, look, s, &(struct qc_pool_options){.workers = workers}, ST) &&
           atomic_load(&s->items) == ITEMS && atomic_load(&s->wrong) == 0;
}

Test(pool_team, workers_are_threads_of_one_team_and_regions_inside_have_one_thread)
{
    for (int levels = 1; levels <= 3; levels++) {
        omp_set_max_active_levels(levels);
        const int before = omp_get_max_threads();
        for (unsigned workers = 1; workers <= 3; workers++) {
            static struct seen s;
            s = (struct seen){.meet = workers};
            cr_assert(run(&s, workers), "%u workers, %d levels: %u wrong", workers, levels, atomic_load(&s.wrong));
            cr_assert_eq(workers_of(&s), workers);
        }
        cr_assert_eq(omp_get_max_threads(), before, "the caller's setting was left changed");
    }
}

Test(pool_team, a_hold_lasts_until_its_release)
{
    int inner = 0;
    omp_set_num_threads(3);
    const int before = qc_pool_hold();
#pragma omp parallel reduction(+ : inner)
    inner++;
    cr_assert_eq(inner, 1);
    qc_pool_release(before);
    cr_assert_eq(omp_get_max_threads(), 3);
}

static void *call(void *arg)
{
    struct seen *s = arg;
    for (int round = 0; round < 20; round++) {
        const unsigned workers = 1 + (unsigned)round % 3;
        *s = (struct seen){.meet = workers};
        if (!run(s, workers) || workers_of(s) != workers) return NULL;
    }
    return s;
}

Test(pool_team, several_threads_call_at_once)
{
    static struct seen s[CALLERS];
    pthread_t t[CALLERS];
    for (size_t i = 0; i < CALLERS; i++) cr_assert_eq(pthread_create(&t[i], NULL, call, &s[i]), 0);
    for (size_t i = 0; i < CALLERS; i++) {
        void *good = NULL;
        pthread_join(t[i], &good);
        cr_assert_not_null(good, "caller %zu", i);
    }
}

/* Where the caller is in a region of its own, OpenMP's rule gives its calls one thread each. */
Test(pool_team, a_call_from_within_a_region)
{
    static struct seen s[2];
    int good = 0;
    omp_set_max_active_levels(1);
#pragma omp parallel num_threads(2) reduction(+ : good)
    good += run(&s[omp_get_thread_num()], 4);
    cr_assert_eq(good, 2);
    cr_assert_eq(workers_of(&s[0]), 1);

    omp_set_max_active_levels(2);
    s[0] = s[1] = (struct seen){.meet = 3};
    good = 0;
#pragma omp parallel num_threads(2) reduction(+ : good)
    good += run(&s[omp_get_thread_num()], 3);
    cr_assert_eq(good, 2);
    cr_assert_eq(workers_of(&s[0]), 3);
    cr_assert_eq(workers_of(&s[1]), 3);
}

/* ------------------------------------------------- signals */

static atomic_int strangers, caught;
static pid_t caller;

static void handler(int number)
{
    atomic_fetch_add(&caught, 1);
    if (gettid() != caller) atomic_fetch_add(&strangers, 1);
}

static bool signal_all(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    (void)user, (void)item, (void)worker, (void)st;
    return kill(getpid(), SIGUSR1) == 0;
}

Test(pool_team, signals_go_to_the_callers_thread)
{
    caller = gettid();
    signal(SIGUSR1, handler);
    for (int round = 0; round < 2; round++) {
        MUST(qc_pool_run(2000, signal_all, NULL, &(struct qc_pool_options){.workers = 3}, ST));
        cr_assert_gt(atomic_load(&caught), 0);
        cr_assert_eq(atomic_load(&strangers), 0, "round %d: %d of %d", round, atomic_load(&strangers),
                     atomic_load(&caught));
    }
}

/* ------------------------------------------------- fork and limits */

/* A run in a child gives ALL + its workers; 1 is what a runtime ends the process with, 255 an end from outside, as by
 * the alarm. */
enum { ALL = 10, SOME = 100 };

static int in_child(int (*f)(void))
{
    const pid_t child = fork();
    if (child == 0) {
        alarm(20);
        _exit(f());
    }
    int status = 0;
    cr_assert_eq(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 255;
}

static int run_three(void)
{
    static struct seen s;
    s = (struct seen){.meet = 3};
    return (run(&s, 3) ? ALL : SOME) + (int)workers_of(&s);
}

Test(pool_team, a_child_has_a_team_of_its_own)
{
    cr_assert_eq(run_three(), ALL + 3);
    cr_assert_eq(in_child(run_three), ALL + 3);
    cr_assert_eq(run_three(), ALL + 3);
}

/* `allowed` threads beside the one that is there. A privileged user has no such limit, another has it for all
 * processes. */
static void limit_threads(unsigned allowed)
{
    if (geteuid() == 0 && setuid((uid_t)(200000 + getpid())) != 0) _exit(101);
    if (setrlimit(RLIMIT_NPROC, &(struct rlimit){1 + allowed, 1 + allowed})) _exit(102);
}

static int run_eight(void)
{
    static struct seen s;
    s = (struct seen){.meet = 0};
    return (run(&s, 8) ? ALL : SOME) + (int)workers_of(&s);
}

static int without_a_thread(void)
{
    limit_threads(0);
    return run_eight();
}

static int with_two_threads(void)
{
    limit_threads(2);
    if (geteuid() < 200000) return ALL + 3; /* other processes of this user count */
    for (int round = 0; round < 50; round++) {
        static struct seen s;
        s = (struct seen){.meet = 3};
        if (!run(&s, round % 2 ? 8 : 3) || workers_of(&s) != 3) return SOME + (int)workers_of(&s);
    }
    return ALL + 3;
}

Test(pool_team, what_the_system_refuses_is_done_without)
{
    cr_assert_eq(in_child(without_a_thread), ALL + 1);
    cr_assert_eq(in_child(with_two_threads), ALL + 3);
}

#ifndef __SANITIZE_ADDRESS__ /* which takes memory of its own for each thread, and ends the process without it */
static int without_memory(void)
{
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long pages = 0;
    if (!f || fscanf(f, "%lu", &pages) != 1) return 101;
    fclose(f);
    const rlim_t bytes = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + (4 << 20); /* half of a stack */
    if (setrlimit(RLIMIT_AS, &(struct rlimit){bytes, bytes})) return 102;
    return run_eight();
}

Test(pool_team, no_memory_for_a_stack)
{
    const int end = in_child(without_memory);
    cr_assert(end > ALL && end < ALL + 8, "%d", end); /* the C library may have kept a stack of an earlier thread */
}
#endif
