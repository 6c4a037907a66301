// SPDX-License-Identifier: Apache-2.0
#define _GNU_SOURCE /* sched_getaffinity, RTLD_DEFAULT */
#include "base/pool.h"

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct run {
    qc_pool_fn *fn;
    void *user;
    const struct qc_pool_options *options;
    size_t count;

    pthread_mutex_t lock; /* guards what follows */
    size_t next, done;
    size_t failed; /* smallest item that failed, `count` while none has */
    bool stopped;
    struct qc_status *st;
};

struct worker {
    struct run *run;
    unsigned number;
    pthread_t thread;
};

/* The OpenMP runtime that the compute library brought into the process, if any. It is looked up by name because it must be
   that one, whichever compiler built this file. */
struct openmp {
    void (*set)(int);
    int (*get)(void);
};

static struct openmp find_openmp(void)
{
    struct openmp o = {0};
    void *set = dlsym(RTLD_DEFAULT, "omp_set_num_threads"), *get = dlsym(RTLD_DEFAULT, "omp_get_max_threads");
    if (set && get) {
        memcpy(&o.set, &set, sizeof o.set); /* C has no cast from an object pointer to a function pointer */
        memcpy(&o.get, &get, sizeof o.get);
    }
    return o;
}

static bool take(struct run *r, size_t *item)
{
    pthread_mutex_lock(&r->lock);
    bool some = !r->stopped && r->next < r->count && r->failed == r->count;
    if (some) *item = r->next++;
    pthread_mutex_unlock(&r->lock);
    return some;
}

static void give_back(struct run *r, size_t item, bool ok, const struct qc_status *st)
{
    pthread_mutex_lock(&r->lock);
    if (!ok) {
        if (item < r->failed) {
            r->failed = item;
            *r->st = *st;
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

static void *work(void *arg)
{
    const struct worker *w = arg;
    struct run *r = w->run;
    /* A worker is one thread: the compute library inside it must not start more. */
    struct openmp omp = find_openmp();
    int before = omp.get ? omp.get() : 0;
    if (omp.set) omp.set(1);
    size_t item;
    while (take(r, &item)) {
        struct qc_status st = QC_STATUS_INIT;
        bool ok = r->fn(r->user, item, w->number, &st);
        if (!ok && st.code == QC_OK) qc_fail(&st, QC_MACHINE, "item %zu failed and gave no reason", item);
        give_back(r, item, ok, &st);
    }
    if (omp.set) omp.set(before);
    return NULL;
}

bool qc_pool_run(size_t count, qc_pool_fn *fn, void *user, const struct qc_pool_options *options, struct qc_status *st)
{
    if (count == 0) return true;
    size_t workers = options->workers < count ? options->workers : count;
    if (workers == 0) workers = 1;
    struct qc_status first = QC_STATUS_INIT;
    struct run r = {.fn = fn, .user = user, .options = options, .count = count, .failed = count, .st = &first};
    struct worker *w = calloc(workers, sizeof *w);
    if (!w) return qc_fail_memory(st, workers * sizeof *w);
    if (pthread_mutex_init(&r.lock, NULL)) {
        free(w);
        return qc_fail(st, QC_MACHINE, "cannot make a lock for the workers");
    }

    /* Signals go to the thread of the caller. */
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    size_t started = 1;
    for (; started < workers; started++) {
        w[started] = (struct worker){.run = &r, .number = (unsigned)started};
        /* With fewer threads than asked for the work takes longer and gives the same. */
        if (pthread_create(&w[started].thread, NULL, work, &w[started])) break;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);

    w[0] = (struct worker){.run = &r, .number = 0};
    work(&w[0]);
    for (size_t i = 1; i < started; i++) pthread_join(w[i].thread, NULL);
    pthread_mutex_destroy(&r.lock);
    free(w);

    if (first.code != QC_OK) return qc_fail(st, first.code, "%s", first.message);
    if (r.stopped) return qc_fail(st, QC_INTERRUPTED, "interrupted after %zu of %zu", r.done, r.count);
    return true;
}

unsigned qc_pool_cores(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0) {
        int n = CPU_COUNT(&set);
        if (n > 0) return (unsigned)n;
    }
    long n = sysconf(_SC_NPROCESSORS_ONLN); /* a machine with more processors than the set holds */
    return n > 0 ? (unsigned)n : 1;
}
