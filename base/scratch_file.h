// SPDX-License-Identifier: Apache-2.0
/* A temporary file without a name, in TMPDIR or /tmp, that is gone with the process: bytes that need not be in memory.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/file_map.h"

struct qc_scratch_file;

/* *out: NULL where there can be none. Errors: memory is out. */
bool qc_scratch_file_new(struct qc_scratch_file **out, struct qc_status *st);
void qc_scratch_file_free(struct qc_scratch_file *f); /* NULL-safe */

/* Makes the file larger by `bytes`, which then have room on the disk. Returns where they are; -1: there is no room. */
int64_t qc_scratch_file_grow(struct qc_scratch_file *f, size_t bytes);

/* So many bytes and what is missing to a page. */
size_t qc_scratch_file_whole(size_t bytes);

/* All of it in memory, to be read, after the file itself is freed too. *out: NULL where it cannot be mapped. */
bool qc_scratch_file_map(struct qc_file_map **out, const struct qc_scratch_file *f, struct qc_status *st);

/* Different places from any thread. Errors: QC_MACHINE, naming the folder. */
bool qc_scratch_file_write(struct qc_scratch_file *f, int64_t at, const void *data, size_t bytes, struct qc_status *st);
bool qc_scratch_file_read(void *data, const struct qc_scratch_file *f, int64_t at, size_t bytes, struct qc_status *st);
