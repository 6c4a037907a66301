// SPDX-License-Identifier: Apache-2.0
/* Memory-mapped files, whose pages are loaded when they are read and which the system can drop, so that they hardly
   count as memory held; and unnamed temporary files in TMPDIR or /tmp, which disappear with the process. */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/status.h"

/* Reference counted; any thread may use it. At least 64 bytes after the end of the file can be read. */
struct qc_file_map;

/* Maps the first `size` bytes of an open file, which may be closed afterwards. *out is owned; NULL if this file cannot
   be mapped and has to be read instead. If another process truncates the file, the process ends (SIGBUS). Fails with
   QC_MACHINE if memory is out. */
bool qc_file_map_new(struct qc_file_map **out, int fd, size_t size, struct qc_status *st);
/* Moves bytes to an unnamed file in TMPDIR or /tmp, so that they need not stay in memory: one model may exceed it.
   Fails with QC_MACHINE, naming the folder, if there is no room. *out is owned. */
bool qc_file_map_spill(struct qc_file_map **out, const void *data, size_t bytes, struct qc_status *st);
/* The same with writable zeros; pages that are forgotten stay in the file. */
bool qc_file_map_scratch(struct qc_file_map **out, size_t bytes, struct qc_status *st);
const void *qc_file_map_data(const struct qc_file_map *m);
void *qc_file_map_room(struct qc_file_map *m); /* only for qc_file_map_scratch */
struct qc_file_map *qc_file_map_ref(struct qc_file_map *m);
void qc_file_map_unref(struct qc_file_map *m); /* NULL-safe */

/* Gives the pages that lie wholly inside these bytes of a map back to the system; they are loaded again when read. */
void qc_file_map_forget(const void *data, size_t bytes);

/* Returns the folder of temporary files: TMPDIR if it is not empty, else `scratch` if there is one, else /tmp. */
const char *qc_temporary_folder(const char *scratch);
/* Makes a new folder in it; *out: its path, from the arena. Fails with QC_MACHINE. */
bool qc_temporary_subfolder(const char **out, const char *scratch, struct qc_arena *a, struct qc_status *st);
/* Makes a new file in TMPDIR, else /tmp; programs that are started do not inherit it. *out: as above. */
bool qc_temporary_file(const char **out, struct qc_arena *a, struct qc_status *st);

/* A temporary file for bytes that need not stay in memory. */
struct qc_scratch_file;

/* folder: of the file; NULL: TMPDIR, or /tmp. Fails with QC_MACHINE, naming the folder, if the file cannot be made. */
bool qc_scratch_file_new(struct qc_scratch_file **out, const char *folder, struct qc_status *st);
void qc_scratch_file_free(struct qc_scratch_file *f); /* NULL-safe */

/* Extends the file by `bytes`, allocated on disk, from offset *at. Fails with QC_MACHINE if there is no room. */
bool qc_scratch_file_grow(int64_t *at, struct qc_scratch_file *f, size_t bytes, struct qc_status *st);

/* Returns `bytes` rounded up to whole pages. */
size_t qc_scratch_file_whole(size_t bytes);

/* Maps the whole file for reading; the map outlives the file. *out is NULL if it cannot be mapped. */
bool qc_scratch_file_map(struct qc_file_map **out, const struct qc_scratch_file *f, struct qc_status *st);

/* Any thread may read and write, at different places. Both fail with QC_MACHINE, naming the folder. */
bool qc_scratch_file_write(struct qc_scratch_file *f, int64_t at, const void *data, size_t bytes, struct qc_status *st);
bool qc_scratch_file_read(void *data, const struct qc_scratch_file *f, int64_t at, size_t bytes, struct qc_status *st);
