// SPDX-License-Identifier: Apache-2.0
/* Runs a program that the user named. No shell is involved. */
#pragma once

#include "base/arena.h"

/* Placeholder of the file name in a command. */
#define QC_COMMAND_FILE "{}"

/* Splits a command into words and puts NULL after them. Blanks separate words; '...' and "..." keep them together and
   cannot contain a quote of their own kind. Fails with QC_USAGE if a quote is open or there is no word. */
bool qc_command_split(const char ***words, size_t *count, const char *text, struct qc_arena *a, struct qc_status *st);

/* Runs the program and waits for its end. `file` replaces every "{}", also inside words. The program runs in the
   current folder and environment, without standard input, in its own process group. *out: the last 4 KB of its output.
   go_on (may be NULL) is called about ten times a second; if it fails, the group is killed. Fails with QC_USAGE if the
   program cannot be started. Fails with QC_MACHINE, naming the last line of standard error, if it exits with a code
   other than 0 or by a signal. */
bool qc_command_run(const char **out, const char *const *words, const char *file,
                    bool (*go_on)(void *user, struct qc_status *st), void *user, struct qc_arena *a,
                    struct qc_status *st);

/* Returns the last number of a text, with its fraction and exponent. Digits that follow a letter ("int8") do not count;
   a unit may follow. NaN if there is none. */
double qc_last_number(const char *text);
