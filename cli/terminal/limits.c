// SPDX-License-Identifier: Apache-2.0
#include "cli/terminal/limits.h"

#include <sys/resource.h>

/* Small jobs run with 128 KiB; paths, messages and image decoders need more. OpenMP threads get stacks of the same
   size. */
enum { STACK_KIB = 1024 };

/* The kernel checks the hard limit first and sends SIGKILL, which would leave unfinished files behind. */
static void make_room_for_signal(void)
{
    struct rlimit cpu;
    if (getrlimit(RLIMIT_CPU, &cpu) || cpu.rlim_cur != cpu.rlim_max || cpu.rlim_max == RLIM_INFINITY ||
        cpu.rlim_max < 2)
        return;
    cpu.rlim_cur = cpu.rlim_max - 1;
    (void)setrlimit(RLIMIT_CPU, &cpu); /* lowering a limit is always allowed */
}

bool qc_limits_begin(struct qc_status *st)
{
    struct rlimit stack;
    make_room_for_signal();
    if (getrlimit(RLIMIT_STACK, &stack) || stack.rlim_cur == RLIM_INFINITY || stack.rlim_cur / 1024 >= STACK_KIB)
        return true;
    return qc_fail(st, QC_MACHINE, "the stack is limited to %llu KiB; at least %d KiB are needed (ulimit -s)",
                   (unsigned long long)stack.rlim_cur / 1024, (int)STACK_KIB);
}
