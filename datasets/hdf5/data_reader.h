// SPDX-License-Identifier: Apache-2.0
/* An HDF5 file that others made: hdf5_io.h, done in a process of its own, of which this one believes nothing; private
   to datasets/. Thread safe. */
#pragma once

#include "datasets/hdf5/hdf5_io.h"

struct qc_reader;

/* Errors of all: as in hdf5_io.h; QC_BAD_INPUT when HDF5 crashes or comes to no end; QC_MACHINE when there can be no
   more processes. */
bool qc_reader_open(struct qc_reader **out, const char *path, enum qc_follow follow, struct qc_status *st);
void qc_reader_close(struct qc_reader *r); /* NULL-safe */

bool qc_reader_list(struct qc_data_list *out, struct qc_reader *r, struct qc_arena *a, struct qc_status *st);
/* Has the root an attribute of this name? */
bool qc_reader_is_marked(bool *out, struct qc_reader *r, const char *name, struct qc_status *st);

/* out->id is of use to the calls below only; nothing is to be closed. */
bool qc_reader_set(struct qc_h5_set *out, struct qc_reader *r, const char *name, struct qc_status *st);
bool qc_reader_rows(void *out, struct qc_reader *r, const struct qc_h5_set *s, int64_t first, int64_t count,
                    struct qc_status *st);
/* The stored chunks of count rows (s->raw), where[i].at into *data, which grows (malloc). One that is not there has
   size 0. */
bool qc_reader_chunks(void **data, size_t *capacity, struct qc_h5_chunk *where, struct qc_reader *r,
                      const struct qc_h5_set *s, int64_t first, size_t count, struct qc_status *st);
/* Are rows, so many at a time, read ahead of those who ask for them in order? Bytes that this takes; 0: they are not.
 */
size_t qc_reader_ahead_bytes(const struct qc_reader *r, const struct qc_h5_set *s, size_t count);
/* From now on they are not. */
void qc_reader_no_ahead(struct qc_reader *r);
bool qc_reader_numbers(long double **values, size_t *count, struct qc_reader *r, const struct qc_h5_set *s,
                       const char *name, struct qc_status *st);
