// SPDX-License-Identifier: Apache-2.0
/* A collection as an HDF5 file (docs/statistics-file.md). The bytes depend only on the collection. */
#pragma once

#include "calib/statistics/collection.h"

/* Returns the file version of a collection: the lowest that can hold its content. */
unsigned qc_statistics_version(const struct qc_collection *c);

/* Encodes a collection as the bytes of the file, owned by the caller (free), or decodes it. Decoding fails with
   QC_BAD_INPUT if the bytes are no statistics, truncated, damaged (the SHA-256 of the content differs) or inconsistent,
   and with QC_UNSUPPORTED on another version. */
bool qc_statistics_encode(void **bytes, size_t *size, const struct qc_collection *c, struct qc_status *st);
bool qc_statistics_decode(struct qc_collection **out, const void *bytes, size_t size, struct qc_status *st);

/* Writes or reads a whole file. An existing file keeps its content until the new one is complete. Errors name the path.
 */
bool qc_statistics_save(const char *path, const struct qc_collection *c, struct qc_status *st);
bool qc_statistics_load(struct qc_collection **out, const char *path, struct qc_status *st);

/* Sets *is if PATH is a statistics file of any version and state. Fails only if memory is out. */
bool qc_statistics_is(bool *is, const char *path, struct qc_status *st);
