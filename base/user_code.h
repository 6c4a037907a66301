// SPDX-License-Identifier: Apache-2.0
/* Code of the user that a thread runs: a kernel or an observer of a shared object. If that code ends the process
   instead of returning, the program's message names it (cli/program.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Names the code that this thread enters, "kernel", "Scaler", "compute"; the texts are borrowed. Calls do not nest. */
void qc_user_code_enter(const char *kind, const char *name, const char *function);
void qc_user_code_leave(void);

/* Writes "compute of the kernel 'Scaler'"; false if this thread runs no code of the user. Safe in signal handlers. */
bool qc_user_code_text(char *text, size_t size);
