// SPDX-License-Identifier: Apache-2.0
/* Code of the user that a thread runs: a kernel or an observer of a shared object. If that code ends the process
   instead of returning, the program's message names it (cli/program.h). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/status.h"

/* Names the code that this thread enters, "kernel", "Scaler", "compute"; the texts are borrowed. Calls do not nest. */
void qc_user_code_enter(const char *kind, const char *name, const char *function);
void qc_user_code_leave(void);

/* Writes "compute of the kernel 'Scaler'"; false if this thread runs no code of the user. Safe in signal handlers. */
bool qc_user_code_text(char *text, size_t size);

/* Shared objects with code of the user. */

/* Loads FILE, a path, not a name of the system's libraries, and finds its symbol. kind: "plugin" or "kernel", for
   messages; header: declares the symbol. *library: to be closed by qc_shared_object_close. Fails with QC_BAD_INPUT, in
   a static program with QC_UNSUPPORTED. */
bool qc_shared_object_open(void **library, const void **symbol, const char *kind, const char *file, const char *name,
                           const char *header, struct qc_status *st);
void qc_shared_object_close(void *library); /* NULL-safe */
