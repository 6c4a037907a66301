// SPDX-License-Identifier: Apache-2.0
/* A collection as a file: HDF5, described in docs/statistics-file.md. The bytes are a function of the collection alone.
 */
#pragma once

#include "calib/statistics/collection.h"

/* The version of the file that a collection makes: the lowest that has room for what is in it. */
unsigned qc_statistics_version(const struct qc_collection *c);

/* The bytes of the file, owned by the caller (free), and back. Decoding errors (QC_BAD_INPUT): no statistics, a newer
   version (QC_UNSUPPORTED), truncated, damaged (the SHA-256 of the content does not fit), or content that no run of
   ours gives. */
bool qc_statistics_encode(void **bytes, size_t *size, const struct qc_collection *c, struct qc_status *st);
bool qc_statistics_decode(struct qc_collection **out, const void *bytes, size_t size, struct qc_status *st);

/* A file at once: an earlier one keeps its content until the new one is complete. Errors name the path. */
bool qc_statistics_save(const char *path, const struct qc_collection *c, struct qc_status *st);
bool qc_statistics_load(struct qc_collection **out, const char *path, struct qc_status *st);

/* Is PATH a statistics file, of whatever version and state? Only want of memory is an error. */
bool qc_statistics_is(bool *is, const char *path, struct qc_status *st);
