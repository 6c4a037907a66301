// SPDX-License-Identifier: Apache-2.0
#include "cli/give_up.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"

_Noreturn void qc_give_up(const char *reason)
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
    _exit(QC_MACHINE);
}
