// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/screen.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/shown.h"
#include "cli/program.h"

/* Signal handlers can only use globals. */
static volatile sig_atomic_t signals, waiting;

static void on_signal(int number)
{
    static const char text[] = "qcalib: interrupted\n";
    int saved = errno;
    if (number == SIGALRM || signals) {
        qc_output_remove_all();
        ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
        (void)ignored;
        _exit(QC_INTERRUPTED);
    }
    signals = 1;
    if (!waiting) alarm(1); /* for work that does not poll */
    errno = saved;
}

/* Pages of a mapped file (base/file_map.h) that were truncated or cannot be read. */
static void on_missing_page(int number)
{
    qc_give_up_user_code(" crashed");
    qc_give_up(
        "a file became shorter, or its disk failed, while it was read; do not change models while they are used");
}

static void on_processor_limit(int number)
{
    qc_give_up("the limit on processor time is reached; raise it (ulimit -t) or use fewer samples");
}

void qc_interrupt_install(void)
{
    static const int ending[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction act, earlier;
    memset(&act, 0, sizeof act);
    sigemptyset(&act.sa_mask);
    act.sa_handler = on_signal;
    act.sa_flags = SA_RESTART;
    for (size_t i = 0; i < sizeof ending / sizeof *ending; i++)
        if (sigaction(ending[i], NULL, &earlier) == 0 && earlier.sa_handler != SIG_IGN)
            sigaction(ending[i], &act, NULL);
    sigaction(SIGALRM, &act, NULL);
    act.sa_handler = on_missing_page;
    sigaction(SIGBUS, &act, NULL);
    act.sa_handler = on_processor_limit;
    sigaction(SIGXCPU, &act, NULL);
    act.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &act, NULL);
    sigaction(SIGXFSZ, &act, NULL);
}

bool qc_interrupt_check(struct qc_status *st)
{
    return !signals || qc_fail(st, QC_INTERRUPTED, "interrupted");
}

enum { BAR = 24 };

static const double every = 0.1; /* seconds between updates */

struct bar {
    struct qc_progress progress; /* first */
    bool shown, drawn;
    char name[QC_PHASE];
    double start, last;
};

static void clear(struct bar *p)
{
    if (!p->drawn) return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    p->drawn = false;
}

static bool tell(void *user, const char *phase, size_t done, size_t count)
{
    struct bar *p = user;
    if (!phase)
        clear(p);
    else if (!count) {
        clear(p);
        qc_text(p->name, sizeof p->name, "%s", phase);
        p->start = qc_seconds();
        p->last = 0;
    }
    if (signals) return false;
    if (!p->shown || count == 0) return true;
    double t = qc_seconds();
    if (t - p->last >= every || done == count) {
        p->last = t;
        char bar[BAR + 1];
        double share = (double)done / (double)count, passed = t - p->start,
               rate = passed > 0 ? (double)done / passed : 0;
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
    return true;
}

static void saves(void *user)
{
    /* From this call on, the first signal waits for a poll without a limit: there is work to save. */
    waiting = 1;
}

bool qc_progress_bar_new(struct qc_progress **out, const struct qc_cli_options *o, struct qc_status *st)
{
    struct bar *p = calloc(1, sizeof *p);
    if (!p) return qc_fail_memory(st, sizeof *p);
    p->shown = o->progress == QC_BAR_ALWAYS || (o->progress == QC_BAR_AUTO && !o->quiet && isatty(STDERR_FILENO));
    p->progress = (struct qc_progress){.tell = tell, .saves = saves, .user = p};
    *out = &p->progress;
    return true;
}

void qc_progress_bar_free(struct qc_progress *p)
{
    if (!p) return;
    clear(p->user);
    free(p->user);
}
