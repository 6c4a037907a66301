// SPDX-License-Identifier: Apache-2.0
/* Files: reading whole files, output that appears only when complete, SHA-256. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/arena.h"
#include "base/file_map.h"
#include "base/status.h"

/* Whether files that an input refers to are read or refused: a model's external data through symbolic links out of its
   folder; external links, external storage and virtual data sets of HDF5. Only regular files are ever read. */
enum qc_follow { QC_FOLLOW_NOTHING, QC_FOLLOW_LINKS };

/* Returns QC_BAD_INPUT for errors of opening a path that the user's input causes (it is missing, a link in a circle),
   QC_MACHINE for others. */
enum qc_code qc_code_of_errno(int error);

/* Opens a regular file for reading; fails as qc_file_read. */
bool qc_file_open(int *fd, uint64_t *size, const char *path, struct qc_status *st);

/* Reads a whole regular file; a 0 follows the *size bytes. Fails, naming the path, with QC_BAD_INPUT if it is missing,
   a directory or not a regular file; with QC_MACHINE without permission, on a read error or if memory is out. */
bool qc_file_read(void **data, size_t *size, const char *path, struct qc_arena *a, struct qc_status *st);

/* Maps a regular file, without a terminating 0 (base/file_map.h); *out is NULL if it cannot be mapped. */
bool qc_file_map(struct qc_file_map **out, size_t *size, const char *path, struct qc_status *st);

/* An output file under construction. It is written to PATH.tmp-PID beside the target and renamed at commit. Until then
   an existing PATH keeps its contents; the new file gets its permissions. Symbolic links are followed. A device
   (/dev/null) is written in place; a pipe is refused. qc_output_free and qc_output_remove_all (for signal handlers and
   exits) remove uncommitted files. At most 64 are open at a time. Fails with QC_MACHINE if PATH is a folder, or if its
   folder is missing or not writable. */
struct qc_output;
bool qc_output_open(struct qc_output **out, const char *path, struct qc_status *st);
const char *qc_output_path(const struct qc_output *o); /* path of the temporary file, for libraries that open by name */
bool qc_output_write(struct qc_output *o, const void *data, size_t size, struct qc_status *st);
/* Flushes, syncs and closes, so that the commit only renames: of two settled files both or none appear, except for a
   crash or a failure between the renames. Nothing can be written afterwards. */
bool qc_output_settle(struct qc_output *o, struct qc_status *st);
/* Settles and renames. Fails with QC_MACHINE, also for write errors that were buffered. */
bool qc_output_commit(struct qc_output *o, struct qc_status *st);
/* Commits two files, the second of which refers to the first. If the process is killed in between, the second is
   missing (the earlier one is WHOLE.tmp-PID-earlier), so that an earlier WHOLE never stands beside a later PART. Of
   several processes, one at a time commits pairs in a folder. */
bool qc_output_commit_pair(struct qc_output *part, struct qc_output *whole, struct qc_status *st);
void qc_output_free(struct qc_output *o); /* NULL-safe; removes an uncommitted file */
void qc_output_remove_all(void);          /* async-signal-safe */

/* Returns true if PATH, with all links resolved, lies in the folder or below it, or if PATH is missing: opening it will
   fail. */
bool qc_path_is_below(const char *path, const char *folder);

/* Fails early with QC_MACHINE if PATH cannot be created: folder missing, not writable, a directory. */
bool qc_output_check(const char *path, struct qc_status *st);

/* Writes a whole file by qc_output_open, _write and _commit. */
bool qc_file_write(const char *path, const void *data, size_t size, struct qc_status *st);

/* Creates a folder and its parents if missing. */
bool qc_make_folder(const char *path, struct qc_status *st);

/* SHA-256 of a file (base/sha256.h). Fails as qc_file_read does. */
bool qc_sha256_file(char hex[65], const char *path, struct qc_status *st);

/* Sparse files can claim a terabyte and store a few bytes: the rest are holes, which read as 0. */

/* Returns the bytes of an open regular file that are not in holes, or its size if the file system does not tell.
   Rewinds fd. */
uint64_t qc_stored_bytes(int fd);

/* Fails with QC_BAD_INPUT and both numbers if nearly all of a large file is holes, which would take too long to
   read. */
bool qc_check_holes(int fd, struct qc_status *st);

/* State of a regular file, to notice that it changes while it is read. */
struct qc_file_state {
    bool known; /* false: there was no regular file */
    uint64_t device, inode, size;
    int64_t seconds, nanoseconds; /* of the last write */
};
struct qc_file_state qc_file_state(const char *path);
/* True if the path is another file now, or the file was written. A file that was removed has not changed. */
bool qc_file_has_changed(const struct qc_file_state *before, const char *path);

/* Output files must differ from all input files and from each other. */

struct qc_named_file {
    const char *what; /* for messages: "-o", "--data" */
    const char *path;
};

/* True if both paths are one file, also by a link or another spelling. */
bool qc_same_file(const char *a, const char *b);

/* Fails with QC_USAGE, naming both, if an output is the same file as an input or another output. Existing files are
   compared by device and inode, so links and other spellings are recognized. Files that do not exist yet are compared
   by their folder and name. Devices and pipes may be named any number of times. */
bool qc_files_apart(const struct qc_named_file *outputs, size_t output_count, const struct qc_named_file *inputs,
                    size_t input_count, struct qc_status *st);
