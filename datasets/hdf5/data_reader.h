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

/* Windows of rows for sequential reading: larger pieces are requested at once, and the next ones are read in the
   background, since a request costs as much as some kilobytes. Private to datasets/. */

/* Arguments of a request about a set. */
struct qc_set_arguments {
    int64_t set, first, count;
    char name[32];
};

/* The source of rows: the process, and the request for rows or for their chunks. */
struct qc_row_source {
    struct qc_process *process;
    qc_work *work; /* with struct qc_set_arguments */
    const struct qc_h5_set *set;
    size_t file_size;
    bool no_more; /* no reading ahead, as memory is scarce */
};

/* Reads exactly these rows. */
bool qc_rows_ask(struct qc_reply *out, const struct qc_row_source *from, int64_t first, int64_t count,
                 struct qc_status *st);

struct qc_row_window {
    int64_t first, count; /* rows in this window */
    struct qc_reply bytes;
};

/* All 0 at first; must not move. Not thread safe. */
struct qc_row_windows {
    struct qc_row_window there[2], alone; /* the newer window first; `alone`: rows before the windows */
    int64_t next;                         /* the row after the last request, */
    int64_t ahead;                        /* and its number of rows, which doubles each time */
    struct qc_later later;                /* the next window, */
    int64_t first, count;                 /* and its rows; count 0: none is requested */
};
void qc_row_windows_free(struct qc_row_windows *w);

/* Returns true if so many rows are too large to share a window. */
bool qc_rows_are_large(const struct qc_h5_set *s, size_t count);
/* Returns the most bytes of all windows of a set. */
size_t qc_row_windows_bytes(const struct qc_h5_set *s);

/* Returns a window with these rows, valid until the next call. Fails with QC_BAD_INPUT if they cannot be read. */
bool qc_row_windows_get(const struct qc_row_window **out, struct qc_row_windows *w, const struct qc_row_source *from,
                        int64_t first, int64_t count, struct qc_status *st);
