// SPDX-License-Identifier: Apache-2.0
/* Runs a program that the user named. No shell is involved. */
#pragma once

#include "base/arena.h"

/* What stands for the file in a command. */
#define QC_COMMAND_FILE "{}"

/* The words of a command, and a NULL behind them. Blanks separate words; '...' and "..." keep them together, and quotes
   cannot stand inside of quotes of their own kind. Errors (QC_USAGE): an open quote, no word. */
bool qc_command_split(const char ***words, size_t *count, const char *text, struct qc_arena *a, struct qc_status *st);

/* Runs the program with `file` in place of every "{}", also inside of words, in this folder and environment, with no
   standard input, as a process group of its own; waits for its end. *out: the end of what it printed, at most 4 KB.
   go_on (may be NULL) is asked ten times a second; when it fails the whole group is killed. Errors: the program cannot
   be started (QC_USAGE), ends with another code than 0 or by a signal (QC_MACHINE, with the last line that it wrote to
   standard error). */
bool qc_command_run(const char **out, const char *const *words, const char *file,
                    bool (*go_on)(void *user, struct qc_status *st), void *user, struct qc_arena *a,
                    struct qc_status *st);

/* The last number of a text: digits that do not belong to a word ("int8"), with a fraction and an exponent; a unit may
   follow. NaN: there is none. */
double qc_last_number(const char *text);
