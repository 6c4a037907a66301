// SPDX-License-Identifier: Apache-2.0
/* Rows of a data set that are read one after the other: more of them are asked for at once, and the next ones are read
   while these are used, as asking costs as much as some kilobytes do. Private to datasets/. */
#pragma once

#include "datasets/hdf5/hdf5_io.h"
#include "datasets/hdf5/reader_process.h"

/* One of a set's questions. */
struct qc_set_arguments {
    int64_t set, first, count;
    char name[32];
};

/* Who is asked for what: rows as they are, or their chunks. */
struct qc_row_source {
    struct qc_process *process;
    qc_work *work; /* with struct qc_set_arguments */
    const struct qc_h5_set *set;
    size_t file_size;
    bool no_more; /* than the rows that are asked for, as memory is scarce */
};

/* Asks for just these rows. */
bool qc_rows_ask(struct qc_reply *out, const struct qc_row_source *from, int64_t first, int64_t count,
                 struct qc_status *st);

struct qc_row_window {
    int64_t first, count; /* rows that are there */
    struct qc_reply bytes;
};

/* All 0 at first; it has to stay where it is. Not thread safe: one thread at a time. */
struct qc_row_windows {
    struct qc_row_window there[2], alone; /* the newer first; and rows behind which the others have gone on */
    int64_t next;                         /* the row behind those that were asked for last, */
    int64_t ahead;                        /* and how many that were: twice as many the next time */
    struct qc_later later;                /* the next window, */
    int64_t first, count;                 /* and its rows; count 0: none is asked for */
};
void qc_row_windows_free(struct qc_row_windows *w);

/* Are so many rows too large to be asked for with others? */
bool qc_rows_are_large(const struct qc_h5_set *s, size_t count);
/* The most bytes that windows of a set take, all together. */
size_t qc_row_windows_bytes(const struct qc_h5_set *s);

/* A window with these rows, until the next call. QC_BAD_INPUT: they cannot be read. */
bool qc_row_windows_get(const struct qc_row_window **out, struct qc_row_windows *w, const struct qc_row_source *from,
                        int64_t first, int64_t count, struct qc_status *st);
