// SPDX-License-Identifier: Apache-2.0
#include "base/lines.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/grow.h"

bool qc_lines_add(struct qc_lines *to, struct qc_arena *a, struct qc_status *st, const char *fmt, ...)
{
    char text[1024];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    const char **more = qc_arena_grown(a, to->lines, to->count, &to->capacity, sizeof *more, st);
    const char *line = more ? qc_arena_strdup(a, text, st) : NULL;
    if (more) to->lines = more;
    if (line) to->lines[to->count++] = line;
    return line != NULL;
}
