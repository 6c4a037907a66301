// SPDX-License-Identifier: Apache-2.0
/* Files: whole-file reading, output that appears only when complete, SHA-256. */
#ifndef QC_BASE_FILE_H
#define QC_BASE_FILE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"

/* Reads a regular file whole (0-terminated behind *size bytes). Errors: missing, a directory, not readable (QC_BAD_INPUT), each naming the path. */
bool qc_file_read(void **data, size_t *size, const char *path, struct qc_arena *a, struct qc_status *st);

/* An output file under construction: written to PATH.tmp-PID beside the target, renamed at commit.
   Uncommitted files are removed by qc_output_free and by qc_output_remove_all (for signal handlers and exits). */
struct qc_output;
bool qc_output_open(struct qc_output **out, const char *path, struct qc_status *st);
const char *qc_output_path(const struct qc_output *o); /* of the temporary file, for libraries that open by name */
bool qc_output_write(struct qc_output *o, const void *data, size_t size, struct qc_status *st);
bool qc_output_commit(struct qc_output *o, struct qc_status *st); /* flush, fsync, rename; write errors show here (QC_MACHINE) */
void qc_output_free(struct qc_output *o);                          /* NULL-safe; removes what was not committed */
void qc_output_remove_all(void);                                   /* async-signal-safe */

/* Fails early (QC_MACHINE) when PATH cannot be created: folder missing, not writable, a directory. */
bool qc_output_check(const char *path, struct qc_status *st);

/* Creates a folder (and its parents) if missing. */
bool qc_make_folder(const char *path, struct qc_status *st);

/* SHA-256 as 64 lower-case hex digits. */
void qc_sha256(char hex[65], const void *data, size_t size);
bool qc_sha256_file(char hex[65], const char *path, struct qc_status *st);

#endif
