// SPDX-License-Identifier: Apache-2.0
/* An unnamed temporary file in TMPDIR or /tmp, for bytes that need not stay in memory; it disappears with the
   process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/file_map.h"

struct qc_scratch_file;

/* Makes a file; *out is NULL if that is impossible. Fails if memory is out. */
bool qc_scratch_file_new(struct qc_scratch_file **out, struct qc_status *st);
void qc_scratch_file_free(struct qc_scratch_file *f); /* NULL-safe */

/* Extends the file by `bytes`, allocated on disk. Returns their offset, or -1 if there is no room. */
int64_t qc_scratch_file_grow(struct qc_scratch_file *f, size_t bytes);

/* Returns `bytes` rounded up to whole pages. */
size_t qc_scratch_file_whole(size_t bytes);

/* Maps the whole file for reading; the map outlives the file. *out is NULL if it cannot be mapped. */
bool qc_scratch_file_map(struct qc_file_map **out, const struct qc_scratch_file *f, struct qc_status *st);

/* Any thread may read and write, at different places. Both fail with QC_MACHINE, naming the folder. */
bool qc_scratch_file_write(struct qc_scratch_file *f, int64_t at, const void *data, size_t bytes, struct qc_status *st);
bool qc_scratch_file_read(void *data, const struct qc_scratch_file *f, int64_t at, size_t bytes, struct qc_status *st);
