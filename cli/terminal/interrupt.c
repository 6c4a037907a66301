// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/give_up.h"

/* Signal handlers can only use globals. */
static volatile sig_atomic_t signals, waiting;

static void leave(void)
{
    static const char text[] = "qcalib: interrupted\n";
    qc_output_remove_all();
    ssize_t ignored = write(STDERR_FILENO, text, sizeof text - 1);
    (void)ignored;
    _exit(QC_INTERRUPTED);
}

static void on_signal(int number)
{
    int saved = errno;
    if (number == SIGALRM || signals) leave();
    signals = 1;
    if (!waiting) alarm(1); /* for work that does not poll */
    errno = saved;
}

/* Pages of a mapped file (base/file_map.h) that were truncated or cannot be read. */
static void on_missing_page(int number)
{
    (void)number;
    qc_give_up(
        "a file became shorter, or its disk failed, while it was read; do not change models while they are used");
}

static void on_processor_limit(int number)
{
    (void)number;
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

void qc_interrupt_wait(void)
{
    waiting = 1;
}

bool qc_interrupted(void)
{
    return signals != 0;
}

bool qc_interrupt_check(struct qc_status *st)
{
    return !signals || qc_fail(st, QC_INTERRUPTED, "interrupted");
}
