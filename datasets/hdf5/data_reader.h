// SPDX-License-Identifier: Apache-2.0
/* Reads an untrusted HDF5 file: hdf5_io.h in a separate process, whose answers are all checked. Private to datasets/.
   Thread safe. */
#pragma once

#include "datasets/hdf5/hdf5_io.h"
#include "datasets/hdf5/reader_process.h"

struct qc_reader;

/* All fail as in hdf5_io.h; also with QC_BAD_INPUT if HDF5 crashes or does not end, and with QC_MACHINE if no process
   can be started. */
bool qc_reader_open(struct qc_reader **out, const char *path, enum qc_follow follow, struct qc_status *st);
void qc_reader_close(struct qc_reader *r); /* NULL-safe */

bool qc_reader_list(struct qc_data_list *out, struct qc_reader *r, struct qc_arena *a, struct qc_status *st);
/* Sets *out if the root has an attribute of this name. */
bool qc_reader_is_marked(bool *out, struct qc_reader *r, const char *name, struct qc_status *st);

/* out->id is only for the calls below; nothing has to be closed. */
bool qc_reader_set(struct qc_h5_set *out, struct qc_reader *r, const char *name, struct qc_status *st);
bool qc_reader_rows(void *out, struct qc_reader *r, const struct qc_h5_set *s, int64_t first, int64_t count,
                    struct qc_status *st);
/* Returns the stored chunks of count rows (needs s->raw): where[i].at is an offset in *data, which grows (malloc). A
   missing chunk has size 0. */
bool qc_reader_chunks(void **data, size_t *capacity, struct qc_h5_chunk *where, struct qc_reader *r,
                      const struct qc_h5_set *s, int64_t first, size_t count, struct qc_status *st);
/* Returns the bytes used for reading ahead if rows are read in order, `count` at a time; 0: there is no reading
   ahead. */
size_t qc_reader_ahead_bytes(const struct qc_reader *r, const struct qc_h5_set *s, size_t count);
/* Ends reading ahead. */
void qc_reader_no_ahead(struct qc_reader *r);
/* Reads a text attribute into the arena; NULL if it is absent. */
bool qc_reader_text(const char **text, struct qc_reader *r, const struct qc_h5_set *s, const char *name,
                    struct qc_arena *a, struct qc_status *st);
bool qc_reader_numbers(long double **values, size_t *count, struct qc_reader *r, const struct qc_h5_set *s,
                       const char *name, struct qc_status *st);
