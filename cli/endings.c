// SPDX-License-Identifier: Apache-2.0
/* Replaces exit and abort for the shared libraries of the program: symbol lookup finds the program's first. A library
   that calls one of them lacks a resource (OpenMP: a thread; C++: memory) and has printed a message, but its exit code
   would be mistaken for one of ours. The program itself returns from main. Failed assertions still abort, because the C
   library calls its own abort. */
#include <stdlib.h>

#include "cli/give_up.h"

#define FOR_LIBRARIES __attribute__((visibility("default")))

static const char text[] = "a library failed, for the reason above; use fewer --threads or a machine with more memory";

FOR_LIBRARIES _Noreturn void exit(int code)
{
    (void)code;
    qc_give_up(text);
}

FOR_LIBRARIES _Noreturn void abort(void)
{
    qc_give_up(text);
}
