// SPDX-License-Identifier: Apache-2.0
#include "base/user_code.h"

#include <string.h>

/* Of each thread: a signal handler, exit and abort have no other argument. */
static _Thread_local struct {
    const char *kind, *name, *function; /* function NULL: none runs */
} running;

void qc_user_code_enter(const char *kind, const char *name, const char *function)
{
    running.kind = kind;
    running.name = name;
    running.function = function;
}

void qc_user_code_leave(void)
{
    running.function = NULL;
}

static void append_user_code(char *text, size_t size, const char *more)
{
    const size_t at = strlen(text), n = strlen(more), room = size - at - 1;
    memcpy(text + at, more, n < room ? n : room);
    text[at + (n < room ? n : room)] = '\0';
}

bool qc_user_code_text(char *text, size_t size)
{
    if (!running.function || !size) return false;
    *text = '\0';
    append_user_code(text, size, running.function);
    append_user_code(text, size, " of the ");
    append_user_code(text, size, running.kind);
    append_user_code(text, size, " '");
    append_user_code(text, size, running.name);
    append_user_code(text, size, "'");
    return true;
}
