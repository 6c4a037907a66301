// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* sched_getaffinity, syscall */
#include "base/pool.h"

#include <omp.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

struct run {
    qc_pool_fn *fn;
    void *user;
    const struct qc_pool_options *options;
    size_t count;

    unsigned workers; /* threads of the team with a higher number do nothing */

    pthread_mutex_t lock; /* guards the members below; each run has its own, so that runs of other threads need not
                             wait */
    size_t next, done;
    size_t failed; /* smallest item that failed, or `count` */
    bool stopped;
    struct qc_status *st;
};

/* Body of every thread of a team. Items are taken in order, so those before a failed one run: one of them may fail too,
   and the error of the smallest is reported. */
static void work(struct run *r, const sigset_t *of_caller)
{
    const unsigned worker = (unsigned)omp_get_thread_num();
    if (worker == 0) pthread_sigmask(SIG_SETMASK, of_caller, NULL);
    /* By OpenMP's rule a nested region has one thread; this also holds if the user allows more levels. */
    omp_set_num_threads(1);
    while (worker < r->workers) {
        pthread_mutex_lock(&r->lock);
        const bool more = !r->stopped && r->next < r->failed;
        const size_t item = more ? r->next++ : 0;
        pthread_mutex_unlock(&r->lock);
        if (!more) return;
        struct qc_status st = QC_STATUS_INIT;
        bool ok = r->fn(r->user, item, worker, &st);
        if (!ok && st.code == QC_OK) qc_fail(&st, QC_MACHINE, "item %zu failed without a reason", item);
        pthread_mutex_lock(&r->lock);
        if (!ok) {
            if (item < r->failed) {
                r->failed = item;
                *r->st = st;
            }
        } else {
            r->done++;
            if (!r->stopped && r->options->progress &&
                !r->options->progress(r->options->progress_user, r->done, r->count)) {
                r->stopped = true;
            }
        }
        pthread_mutex_unlock(&r->lock);
    }
}

/* ------------------------------------------------- threads that the system refuses */

/* The OpenMP runtime aborts the process if the system refuses a thread. So we ask the system first, with idle threads
   that exist at the same time. */
struct probe {
    pthread_mutex_t gate;
};

struct probed {
    struct probe *probe;
    pthread_t thread;
    pid_t id;
};

static void *be_there(void *arg)
{
    struct probed *p = arg;
    p->id = (pid_t)syscall(SYS_gettid);
    pthread_mutex_lock(&p->probe->gate);
    pthread_mutex_unlock(&p->probe->gate);
    return NULL;
}

/* Returns the number of threads that can be started in addition to the existing ones, at most `wanted`. */
static unsigned possible(unsigned wanted)
{
    enum { RUNTIME_BYTES = 1 << 12 }; /* per thread; more than libgomp and libomp allocate */
    struct probe probe;
    void *memory = calloc(wanted, RUNTIME_BYTES);
    struct probed *p = calloc(wanted, sizeof *p);
    unsigned count = 0;
    if (memory && p && pthread_mutex_init(&probe.gate, NULL) == 0) {
        pthread_mutex_lock(&probe.gate);
        for (; count < wanted; count++) {
            p[count].probe = &probe;
            if (pthread_create(&p[count].thread, NULL, be_there, &p[count])) break;
        }
        pthread_mutex_unlock(&probe.gate);
        for (unsigned i = 0; i < count; i++) pthread_join(p[i].thread, NULL);
        for (unsigned i = 0; i < count; i++) {
            for (int j = 0; j < 100000 && syscall(SYS_tgkill, getpid(), p[i].id, 0) == 0; j++) sched_yield();
        }
        pthread_mutex_destroy(&probe.gate);
    }
    free(p);
    free(memory);
    return count;
}

/* Threads of this thread's last team except itself. The runtime keeps them for the next team and ends those that a team
   does not use. */
static _Thread_local unsigned kept;

/* A forked child has none of its parent's threads, but the runtime would still count on them. */
static void give_team_back(void)
{
#ifndef KMP_VERSION_MAJOR /* libomp handles forks itself */
    if (kept > 0) omp_pause_resource(omp_pause_soft, omp_get_initial_device());
#endif
    kept = 0;
}

static void watch_forks(void)
{
    pthread_atfork(give_team_back, NULL, NULL);
}

/* Returns 1 if a team needs a thread that does nothing. Between loops and at their end, libgomp's threads spin for 3
   ms, which takes the time of a busy machine, unless it has more threads than processors (libgomp/config/linux/wait.h).
   Its only other setting is OMP_WAIT_POLICY, which it reads before main. With fewer threads, other processors are free.
 */
static unsigned idle_threads(unsigned workers)
{
#ifdef KMP_VERSION_MAJOR
    (void)workers; /* libomp: qc_pool_run */
    return 0;
#else
    return workers > 1 && (int)workers == omp_get_num_procs();
#endif
}

/* Returns the number of workers that a team may have, at most `workers`. *threads: with those that do nothing. */
static unsigned team_of(unsigned *threads, unsigned workers)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    unsigned others = workers - 1;
    pthread_once(&once, watch_forks);
    *threads = 1;
    if (workers == 1 || omp_get_active_level() >= omp_get_max_active_levels()) return 1;
    if (omp_get_level() > 0) return *threads = 1 + possible(others); /* threads of inner teams are not kept */
    others += idle_threads(workers);
    kept = others <= kept ? others : kept + possible(others - kept);
    *threads = 1 + kept;
    return *threads < workers ? *threads : workers;
}

/* ------------------------------------------------- */

/* Faults of a thread itself: if they are blocked, the system ends the process without the program's message. */
static const int faults[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT};

bool qc_pool_run(size_t count, qc_pool_fn *fn, void *user, const struct qc_pool_options *options, struct qc_status *st)
{
    if (count == 0) return true;
    unsigned workers = options->workers < count ? options->workers : (unsigned)count;
    if (workers == 0) workers = 1;
    struct qc_status first = QC_STATUS_INIT;
    struct run r = {.fn = fn, .user = user, .options = options, .count = count, .failed = count, .st = &first};
    sigset_t all, of_caller;
    unsigned threads;
    sigfillset(&all);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) sigdelset(&all, faults[i]);
    if (pthread_mutex_init(&r.lock, NULL)) return qc_fail(st, QC_MACHINE, "cannot make a lock for the workers");

    /* Signals go to the caller's thread: new threads inherit the mask of their creator. */
    pthread_sigmask(SIG_SETMASK, &all, &of_caller);
    r.workers = team_of(&threads, workers);
#ifdef KMP_VERSION_MAJOR
    const int spinning = kmp_get_blocktime();
    kmp_set_blocktime(0);
#endif
#pragma omp parallel num_threads((int)threads)
    work(&r, &of_caller);
#ifdef KMP_VERSION_MAJOR
    kmp_set_blocktime(spinning);
#endif
    pthread_mutex_destroy(&r.lock);

    if (first.code != QC_OK) return qc_fail(st, first.code, "%s", first.message);
    if (r.stopped) return qc_fail(st, QC_INTERRUPTED, "interrupted after %zu of %zu", r.done, r.count);
    return true;
}

/* Workers of loops that the calling thread begins; 1 inside a team. */
static _Thread_local unsigned shares = 1;

unsigned qc_pool_share(unsigned workers)
{
    const unsigned before = shares;
    shares = workers ? workers : 1;
    return before;
}

struct loop {
    qc_pool_loop_fn *fn;
    void *user;
};

static bool run_loop_item(void *user, size_t item, unsigned worker, struct qc_status *st)
{
    const struct loop *l = user;
    l->fn(l->user, item);
    return true;
}

void qc_pool_loop(size_t count, qc_pool_loop_fn *fn, void *user)
{
    struct qc_status st = QC_STATUS_INIT;
    struct loop l = {.fn = fn, .user = user};
    const struct qc_pool_options team = {.workers = shares};
    if (shares > 1 && count > 1 && omp_get_level() == 0 && qc_pool_run(count, run_loop_item, &l, &team, &st)) return;
    for (size_t item = 0; item < count; item++) fn(user, item);
}

/* CLEARED_LEAST: smaller blocks are cleared faster than a thread wakes up, and histogram counters, of which there are
   many, are smaller. */
enum { CLEARED_LEAST = 1 << 20, CLEARED = 1 << 18 };

struct clearing {
    char *to;
    size_t bytes;
};

static void clear_some(void *user, size_t item)
{
    const struct clearing *c = user;
    const size_t first = item * CLEARED, left = c->bytes - first;
    memset(c->to + first, 0, left < CLEARED ? left : CLEARED);
}

void qc_pool_clear(void *to, size_t bytes)
{
    struct clearing c = {.to = to, .bytes = bytes};
    if (bytes < CLEARED_LEAST)
        memset(to, 0, bytes);
    else
        qc_pool_loop((bytes + CLEARED - 1) / CLEARED, clear_some, &c);
}

int qc_pool_hold(void)
{
    const int before = omp_get_max_threads();
    if (before != 1) omp_set_num_threads(1);
    return before;
}

void qc_pool_release(int before)
{
    if (before != 1) omp_set_num_threads(before);
}

unsigned qc_pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int n = CPU_COUNT(&set);
        if (n > 0) return (unsigned)n;
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* the machine has more processors than a cpu_set_t can hold */
    return n > 0 ? (unsigned)n : 1;
}
