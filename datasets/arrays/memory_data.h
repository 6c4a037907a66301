// SPDX-License-Identifier: Apache-2.0
/* Samples that a program holds: arrays of its own, or rows that a function of its own gives one after the other. To
   qc_dataset_open_memory each array is what a data set of a file is to qc_dataset_open: the first axis is the sample,
   names and `labels` and `target` mean the same. */
#pragma once

#include "datasets/samples/dataset.h"

struct qc_memory_data;

/* One array. Everything is copied. */
struct qc_array {
    const char *name;
    enum qc_dtype dtype;  /* of the elements, in the machine's byte order; not u4 and i4 */
    unsigned rank;        /* 1 to QC_DATA_RANK_MAX */
    const int64_t *dims;  /* dims[0]: samples */
    const int64_t *sizes; /* [dims[0]][rank - 1]: shapes of the samples, which may differ (then the rest of dims is not
                             looked at); for a reader's rows. NULL: all have dims */
    const char *preprocess; /* text of --preprocess; NULL or "": values are taken as they are */
    double peak;            /* of a target: its attribute `peak`; 0: none */
};

/* name: what messages and reports call it where a file has its path; copied. */
bool qc_memory_data_new(struct qc_memory_data **out, const char *name, struct qc_status *st);
void qc_memory_data_free(struct qc_memory_data *m); /* NULL-safe */
const char *qc_memory_data_name(const struct qc_memory_data *m);

/* An array that lies in memory, row-major. values are borrowed: they stay as they are until qc_memory_data_free.
   QC_USAGE: a name that is empty or taken, a type, rank or shape that cannot be. */
bool qc_memory_data_add(struct qc_memory_data *m, const struct qc_array *array, const void *values,
                        struct qc_status *st);

/* Fills values[k] with one row of array k, or says that there are no more. False stops with the status it leaves. */
typedef bool qc_next_sample_fn(bool *more, void *user, void *const *values, struct qc_status *st);

/* Arrays whose rows `next` gives: it is called in this thread, once for each sample and once for the end, before this
   returns. dims[0] of the arrays are not looked at. Of the rows at most keep_bytes stay in memory, the rest goes to a
   temporary file (datasets/hdf5/spill.h). Errors: as qc_memory_data_add, of next, of the file. */
bool qc_memory_data_draw(struct qc_memory_data *m, const struct qc_array *arrays, size_t count, qc_next_sample_fn *next,
                         void *user, size_t keep_bytes, struct qc_status *st);

/* One row of an array whose rows differ in size: its shape [rank - 1] and values, as they are until the next call. */
struct qc_sized_row {
    const int64_t *dims;
    const void *values;
};

/* Sets rows[k] to the next row of array k, or says that there are no more. False stops with the status it leaves. */
typedef bool qc_next_sized_fn(bool *more, void *user, struct qc_sized_row *rows, struct qc_status *st);

/* As qc_memory_data_draw; dims of the arrays that are -1 may differ from row to row. */
bool qc_memory_data_draw_sized(struct qc_memory_data *m, const struct qc_array *arrays, size_t count,
                               qc_next_sized_fn *next, void *user, size_t keep_bytes, struct qc_status *st);

/* Rows that are made when they are asked for: out of a file, or of a file each. */
struct qc_row_reader {
    /* Before the first row is read, when it is certain that rows will be; NULL: there is nothing to do. */
    bool (*begin)(void *user, struct qc_status *st);
    /* count rows from first, which are there. Thread safe. */
    bool (*read)(void *out, void *user, size_t first, size_t count, struct qc_status *st);
    /* Finds out which of these rows (ascending) cannot be read, and takes them out of the array: rows behind them move
       up. *gone: how many. NULL: all can be read. */
    bool (*check)(size_t *gone, void *user, const uint64_t *rows, size_t count, struct qc_status *st);
    void (*free)(void *user); /* NULL: there is nothing to free */
    bool copies;              /* reading a row is no more work than a copy of it: nobody needs to keep it */
};

/* An array whose rows the reader makes. user belongs to m from here on, also after an error. Errors: as
 * qc_memory_data_add. */
bool qc_memory_data_add_reader(struct qc_memory_data *m, const struct qc_array *array,
                               const struct qc_row_reader *reader, void *user, struct qc_status *st);

/* An array that is there and that nobody can read, for lists: type is what it holds. Errors: as qc_memory_data_add. */
bool qc_memory_data_add_unread(struct qc_memory_data *m, const struct qc_array *array, const char *type,
                               struct qc_status *st);

/* How lists call the way an array is stored; "memory" until this is said. Of all arrays that are added later. */
bool qc_memory_data_storage(struct qc_memory_data *m, const char *storage, struct qc_status *st);

/* 64 hex digits that differ where names, types, shapes, preprocessing or values do; borrowed and drawn rows of the
   same values have the same. Reads all rows. */
bool qc_memory_data_sha256(char hex[65], const struct qc_memory_data *m, struct qc_status *st);

/* As qc_dataset_open. m is borrowed and stays as it is until qc_dataset_free; any number of data sets may be open on
   it, in any thread. */
bool qc_dataset_open_memory(struct qc_dataset **out, const struct qc_memory_data *m, const struct qc_input_spec *inputs,
                            size_t input_count, const struct qc_dataset_options *options, struct qc_status *st);
