// SPDX-License-Identifier: Apache-2.0
#include "cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/shown.h"
#include "cli/interrupt.h"

enum { BAR = 24, NAME = 41 };

static const double every = 0.1; /* seconds between two drawings */

struct qc_progress {
    bool shown, drawn;
    char name[NAME];
    double start, last;
};

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

bool qc_progress_new(struct qc_progress **out, const struct qc_cli_options *o, struct qc_status *st)
{
    struct qc_progress *p = calloc(1, sizeof *p);
    if (!p) return qc_fail_memory(st, sizeof *p);
    bool always = strcmp(o->progress, "always") == 0, never = strcmp(o->progress, "never") == 0;
    p->shown = always || (!never && !o->quiet && isatty(STDERR_FILENO));
    *out = p;
    return true;
}

void qc_progress_end(struct qc_progress *p)
{
    if (!p->drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->drawn = false;
}

void qc_progress_free(struct qc_progress *p)
{
    if (!p) return;
    qc_progress_end(p);
    free(p);
}

void qc_progress_phase(struct qc_progress *p, const char *fmt, ...)
{
    qc_progress_end(p);
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(p->name, sizeof p->name, fmt, ap);
    va_end(ap);
    p->start = now();
    p->last = 0;
}

static void draw(struct qc_progress *p, size_t done, size_t count, double t)
{
    char bar[BAR + 1];
    double share = (double)done / (double)count, passed = t - p->start, rate = passed > 0 ? (double)done / passed : 0;
    size_t full = (size_t)(share * BAR);
    memset(bar, '-', BAR);
    memset(bar, '#', full);
    bar[BAR] = '\0';
    qc_print(stderr, "\r%s [%s] %3.0f %%  %zu/%zu", p->name, bar, 100 * share, done, count);
    if (rate > 0) qc_print(stderr, "  %.*f/s", rate < 10 ? 1 : 0, rate);
    if (rate > 0 && passed > 0.5) {
        unsigned long left = (unsigned long)((double)(count - done) / rate + 0.5);
        qc_print(stderr, "  %lu:%02lu left", left / 60, left % 60);
    }
    fputs("\033[K", stderr);
    fflush(stderr);
    p->drawn = true;
}

bool qc_progress_step(void *user, size_t done, size_t count)
{
    struct qc_progress *p = user;
    if (qc_interrupted()) return false;
    if (!p->shown || count == 0) return true;
    double t = now();
    if (t - p->last >= every || done == count) {
        p->last = t;
        draw(p, done, count, t);
    }
    return true;
}
