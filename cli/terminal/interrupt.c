// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/interrupt.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

/* Signals leave no other way than a global. */
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
    act.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &act, NULL);
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
