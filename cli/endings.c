// SPDX-License-Identifier: Apache-2.0
/* exit and abort as the shared libraries of the program see them: lookup of symbols finds the program's first. A
   library that calls one of them has given up for want of something (OpenMP: a thread; C++: memory) and has said why;
   its exit code would be read as one of ours. The program itself returns from main; an assertion of ours still aborts,
   for the C library calls its own. */
#include <stdlib.h>

#include "cli/give_up.h"

#define FOR_LIBRARIES __attribute__((visibility("default")))

static const char text[] = "a library gave up, for the reason above; use fewer --threads or a machine with more memory";

FOR_LIBRARIES _Noreturn void exit(int code)
{
    (void)code;
    qc_give_up(text);
}

FOR_LIBRARIES _Noreturn void abort(void)
{
    qc_give_up(text);
}
