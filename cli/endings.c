// SPDX-License-Identifier: Apache-2.0
/* Replaces exit and abort for the shared libraries of the program: symbol lookup finds the program's first. A library
   that calls one of them lacks a resource (OpenMP: a thread; C++: memory) and has printed a message, but its exit code
   would be mistaken for one of ours. The program itself returns from main. Failed assertions still abort, because the C
   library calls its own abort. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli/program.h"

#define FOR_LIBRARIES __attribute__((visibility("default")))

static const char text[] = "a library failed, for the reason above; use fewer --threads or a machine with more memory";

FOR_LIBRARIES _Noreturn void exit(int code)
{
    qc_give_up_user_code(" called exit");
    qc_give_up(text);
}

FOR_LIBRARIES _Noreturn void abort(void)
{
    qc_give_up_user_code(" aborted or threw an exception");
    qc_give_up(text);
}

/* The C library's own, for every other caller. C has no cast from an object pointer to a function pointer. */
FOR_LIBRARIES _Noreturn void _exit(int code)
{
    void (*real)(int);
    void *found;
    qc_give_up_user_code(" called exit");
    while (!(found = dlsym(RTLD_NEXT, "_exit"))) continue;
    memcpy(&real, &found, sizeof real);
    for (;;) real(code);
}

FOR_LIBRARIES _Noreturn void _Exit(int code)
{
    _exit(code);
}
