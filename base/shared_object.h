// SPDX-License-Identifier: Apache-2.0
/* Shared objects with code of the user. */
#pragma once

#include "base/status.h"

/* Loads FILE, a path, not a name of the system's libraries, and finds its symbol. kind: "plugin" or "kernel", for
   messages; header: declares the symbol. *library: to be closed by qc_shared_object_close. Fails with QC_BAD_INPUT, in
   a static program with QC_UNSUPPORTED. */
bool qc_shared_object_open(void **library, const void **symbol, const char *kind, const char *file, const char *name,
                           const char *header, struct qc_status *st);
void qc_shared_object_close(void *library); /* NULL-safe */
