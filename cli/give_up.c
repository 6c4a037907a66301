// SPDX-License-Identifier: Apache-2.0
#include "cli/program.h"

#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "base/user_code.h"

static _Noreturn void end_program(const char *reason, enum qc_code code)
{
    static atomic_flag told = ATOMIC_FLAG_INIT;
    static const char before[] = "qcalib: ";
    char line[512];
    while (atomic_flag_test_and_set(&told)) pause(); /* the first thread ends the process */
    size_t n = strlen(reason), at = sizeof before - 1;
    if (n > sizeof line - sizeof before) n = sizeof line - sizeof before;
    memcpy(line, before, at);
    memcpy(line + at, reason, n);
    line[at + n] = '\n';
    qc_output_remove_all();
    ssize_t ignored = write(STDERR_FILENO, line, at + n + 1);
    (void)ignored;
    qc_user_code_leave(); /* _exit is ours: cli/endings.c */
    _exit((int)code);
}

_Noreturn void qc_give_up(const char *reason)
{
    end_program(reason, QC_MACHINE);
}

void qc_give_up_user_code(const char *how)
{
    char text[400];
    if (!qc_user_code_text(text, sizeof text - 64)) return;
    const size_t at = strlen(text), n = strlen(how);
    memcpy(text + at, how, n < 63 ? n + 1 : 63);
    text[at + 63] = '\0';
    end_program(text, QC_BAD_INPUT);
}

static void on_crash(int number)
{
    qc_give_up_user_code(number == SIGABRT ? " aborted or threw an exception" : " crashed");
    signal(number, SIG_DFL); /* a fault of our own */
    raise(number);
}

void qc_watch_user_code(void)
{
    static const int crashes[] = {SIGABRT, SIGSEGV, SIGFPE, SIGILL, SIGTRAP}; /* SIGBUS: terminal/interrupt.h */
    struct sigaction act = {.sa_handler = on_crash};
    sigemptyset(&act.sa_mask);
    for (size_t i = 0; i < sizeof crashes / sizeof *crashes; i++) sigaction(crashes[i], &act, NULL);
}
