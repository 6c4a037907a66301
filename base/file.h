// SPDX-License-Identifier: Apache-2.0
/* Files: whole-file reading, output that appears only when complete, SHA-256. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/file_map.h"
#include "base/status.h"

/* What a file says is in another one (a model's external data through symbolic links out of its folder; external links,
   external storage and virtual data sets of HDF5) is refused, or read. Never anything but regular files. */
enum qc_follow { QC_FOLLOW_NOTHING, QC_FOLLOW_LINKS };

/* Reads a regular file whole (0-terminated behind *size bytes). Errors, each naming the path: missing, a directory, not
   a regular file (QC_BAD_INPUT); no permission, read error, no memory (QC_MACHINE). */
bool qc_file_read(void **data, size_t *size, const char *path, struct qc_arena *a, struct qc_status *st);

/* The same as it lies on the disk, without a 0 behind it (base/file_map.h); *out is NULL where it cannot be mapped. */
bool qc_file_map(struct qc_file_map **out, size_t *size, const char *path, struct qc_status *st);

/* An output file under construction: written to PATH.tmp-PID beside the target, renamed at commit. An earlier PATH
   keeps its contents until then, and its permissions after. A symbolic link is followed. A device or pipe (/dev/null)
   is written in place. Uncommitted files are removed by qc_output_free and by qc_output_remove_all (for signal handlers
   and exits). At most 64 at a time. Errors: PATH is a folder, its folder is missing or not writable (QC_MACHINE). */
struct qc_output;
bool qc_output_open(struct qc_output **out, const char *path, struct qc_status *st);
const char *qc_output_path(const struct qc_output *o); /* of the temporary file, for libraries that open by name */
bool qc_output_write(struct qc_output *o, const void *data, size_t size, struct qc_status *st);
/* Flush and fsync: afterwards a commit only renames, so that of two files both or none appear, but for a crash between.
 */
bool qc_output_settle(struct qc_output *o, struct qc_status *st);
/* Flush, fsync, rename; write errors that were held back show here (QC_MACHINE). */
bool qc_output_commit(struct qc_output *o, struct qc_status *st);
void qc_output_free(struct qc_output *o); /* NULL-safe; removes what was not committed */
void qc_output_remove_all(void);          /* async-signal-safe */

/* Does PATH lie in the folder or below it, all links resolved? What is not there does: it is left to open. */
bool qc_path_is_below(const char *path, const char *folder);

/* Fails early (QC_MACHINE) when PATH cannot be created: folder missing, not writable, a directory. */
bool qc_output_check(const char *path, struct qc_status *st);

/* Creates a folder (and its parents) if missing. */
bool qc_make_folder(const char *path, struct qc_status *st);

/* SHA-256 (FIPS 180-4) as 64 lower-case hex digits. Errors: no memory; for a file as qc_file_read. */
bool qc_sha256(char hex[65], const void *data, size_t size, struct qc_status *st);
bool qc_sha256_file(char hex[65], const char *path, struct qc_status *st);

/* Files of a few bytes that say they have a terabyte: the rest are holes, which read as 0. */

/* Bytes of an open regular file that are not in holes; all of them where the file system does not say. fd is read from
   its beginning afterwards. */
uint64_t qc_stored_bytes(int fd);

/* Fails (QC_BAD_INPUT, with both numbers) where nearly all of a large file is holes, which would be read for ever. */
bool qc_check_holes(int fd, struct qc_status *st);

/* Files that are written must be none of those that are read, and no two of them the same. */

struct qc_named_file {
    const char *what; /* for messages: "-o", "--data" */
    const char *path;
};

/* QC_USAGE, naming both, when an output is the same file as an input, or as another output. Files that exist are told
   apart by device and inode, so links and other spellings are seen through; files that do not exist yet by the folder
   they will be in and their name. Devices and pipes may be named any number of times. */
bool qc_files_apart(const struct qc_named_file *outputs, size_t output_count, const struct qc_named_file *inputs,
                    size_t input_count, struct qc_status *st);
