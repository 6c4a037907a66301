// SPDX-License-Identifier: Apache-2.0
/* Named arrays and texts as an HDF5 file, made and read in memory; the caller stores the bytes. While it is made, a
   large file lies in a temporary file that is mapped (base/file_map.h). The bytes depend only on the content and its
   order (there are no times). h5py and h5dump read them. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "graph/types/dtype.h"

struct qc_archive;

/* ---- Writing ---- */

bool qc_archive_new(struct qc_archive **out, struct qc_status *st);
void qc_archive_free(struct qc_archive *a); /* NULL-safe */

/* Adds a string attribute of the root (UTF-8, no 0 inside). */
bool qc_archive_put_text(struct qc_archive *a, const char *name, const char *text, struct qc_status *st);
/* Adds an unsigned 64-bit attribute of the root. */
bool qc_archive_put_number(struct qc_archive *a, const char *name, uint64_t number, struct qc_status *st);
/* Adds data set `path` ("group/name") of rows x columns elements, [rows] if columns is 0, with shuffle and gzip. */
bool qc_archive_put(struct qc_archive *a, const char *path, enum qc_dtype dtype, size_t rows, size_t columns,
                    const void *data, struct qc_status *st);
/* The same with rows that are computed while they are written, some at a time: `next` makes the next `rows` rows. Fails
   as `next` does. The file has the same bytes. */
typedef bool qc_archive_next(void *user, void *to, size_t rows, struct qc_status *st);
bool qc_archive_put_from(struct qc_archive *a, const char *path, enum qc_dtype dtype, size_t rows, size_t columns,
                         qc_archive_next *next, void *user, struct qc_status *st);
/* Adds a data set of strings of equal length, padded with 0. */
bool qc_archive_put_texts(struct qc_archive *a, const char *path, size_t count, const char *const *texts,
                          struct qc_status *st);

/* Ends writing and returns the file's bytes, owned by the caller (free). */
bool qc_archive_bytes(void **out, size_t *size, struct qc_archive *a, struct qc_status *st);
/* The same to a file, as qc_file_write does. */
bool qc_archive_save(const char *path, struct qc_archive *a, struct qc_status *st);

/* ---- Reading ---- */

/* bytes are borrowed and must outlive the archive. Fails with QC_BAD_INPUT if they are no HDF5 file, truncated or
   damaged. */
bool qc_archive_open(struct qc_archive **out, const void *bytes, size_t size, struct qc_status *st);

/* A data set that is expected in an archive. */
struct qc_archive_set {
    const char *path;
    enum qc_dtype dtype;
    size_t columns, most; /* rows at most */
};

/* Results are allocated in the arena. Fails with QC_BAD_INPUT, naming the object, if it is missing or damaged, has
   another type or shape, or more rows than `most`. */
bool qc_archive_text(const char **out, const struct qc_archive *f, const char *name, struct qc_arena *a,
                     struct qc_status *st);
bool qc_archive_number(uint64_t *out, const struct qc_archive *f, const char *name, struct qc_status *st);
bool qc_archive_get(void **out, size_t *rows, const struct qc_archive *f, const struct qc_archive_set *set,
                    struct qc_arena *a, struct qc_status *st);
bool qc_archive_get_texts(const char ***out, size_t *count, const struct qc_archive *f, const char *path, size_t most,
                          struct qc_arena *a, struct qc_status *st);

/* Sets *marked if PATH is an HDF5 file whose root has an attribute of this name. Fails if an HDF5 file cannot be
   read. */
bool qc_archive_marked(bool *marked, const char *path, const char *name, struct qc_status *st);
