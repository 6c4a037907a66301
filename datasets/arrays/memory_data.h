// SPDX-License-Identifier: Apache-2.0
/* Samples held by the program: its own arrays, or rows returned one by one by its callback. For qc_dataset_open_memory
   an array is what a data set is for qc_dataset_open: the first axis is the sample, and names, `labels` and `target`
   mean the same. */
#pragma once

#include "datasets/hdf5/hdf5_io.h"
#include "datasets/samples/dataset.h"

struct qc_memory_data;

/* Description of one array. Everything is copied. */
struct qc_array {
    const char *name;
    enum qc_dtype dtype;    /* element type, in native byte order; not u4 and i4 */
    unsigned rank;          /* 1 to QC_DATA_RANK_MAX */
    const int64_t *dims;    /* dims[0]: samples */
    const int64_t *sizes;   /* [dims[0]][rank - 1]: shapes of the samples if they differ (then the rest of dims is
                               ignored); only for a reader's rows. NULL: all have dims */
    const char *preprocess; /* text of --preprocess; NULL or "": values are not changed */
    double peak;            /* of a target: its attribute `peak`; 0: none */
    bool named_by_file;     /* the name is that of the file, and says nothing about the samples */
};

/* name: used in messages and reports in place of a file's path; copied. */
bool qc_memory_data_new(struct qc_memory_data **out, const char *name, struct qc_status *st);
void qc_memory_data_free(struct qc_memory_data *m); /* NULL-safe */
const char *qc_memory_data_name(const struct qc_memory_data *m);

/* Adds an array in memory, row-major. values are borrowed and must stay unchanged until qc_memory_data_free. Fails with
   QC_USAGE if the name is empty or taken, or the type, rank or shape is invalid. */
bool qc_memory_data_add(struct qc_memory_data *m, const struct qc_array *array, const void *values,
                        struct qc_status *st);

/* Fills values[k] with one row of array k, or sets *more to false at the end. Returning false stops with its status. */
typedef bool qc_next_sample_fn(bool *more, void *user, void *const *values, struct qc_status *st);

/* Adds arrays whose rows `next` returns. It is called in this thread, once for each sample and once for the end, before
   this function returns. dims[0] of the arrays is ignored. At most keep_bytes of rows stay in memory; the rest goes to
   a temporary file (base/file_map.h). Fails like qc_memory_data_add, or if next or the file fails. */
bool qc_memory_data_draw(struct qc_memory_data *m, const struct qc_array *arrays, size_t count, qc_next_sample_fn *next,
                         void *user, size_t keep_bytes, struct qc_status *st);

/* One row of an array whose rows differ in size: its shape [rank - 1] and its values, valid until the next call. */
struct qc_sized_row {
    const int64_t *dims;
    const void *values;
};

/* Sets rows[k] to the next row of array k, or sets *more to false at the end. Returning false stops with its status. */
typedef bool qc_next_sized_fn(bool *more, void *user, struct qc_sized_row *rows, struct qc_status *st);

/* As qc_memory_data_draw, but dims of -1 may differ from row to row. */
bool qc_memory_data_draw_sized(struct qc_memory_data *m, const struct qc_array *arrays, size_t count,
                               qc_next_sized_fn *next, void *user, size_t keep_bytes, struct qc_status *st);

/* Rows that are made on demand, from one file or from many. */
struct qc_row_reader {
    /* Called before the first row is read, once it is certain that rows will be; may be NULL. */
    bool (*begin)(void *user, struct qc_status *st);
    /* Reads count existing rows from first. Thread safe. */
    bool (*read)(void *out, void *user, size_t first, size_t count, struct qc_status *st);
    /* Removes those of these rows (ascending) that cannot be read from the array; later rows move up. *gone: how many.
       NULL: all can be read. */
    bool (*check)(size_t *gone, void *user, const uint64_t *rows, size_t count, struct qc_status *st);
    void (*free)(void *user); /* may be NULL */
    bool copies;              /* reading a row costs no more than copying it, so caching is useless */
};

/* Adds an array whose rows the reader makes. m takes ownership of user, also on failure. Fails like
   qc_memory_data_add. */
bool qc_memory_data_add_reader(struct qc_memory_data *m, const struct qc_array *array,
                               const struct qc_row_reader *reader, void *user, struct qc_status *st);

/* Adds an array that cannot be read, for lists; type describes its content. Fails like qc_memory_data_add. */
bool qc_memory_data_add_unread(struct qc_memory_data *m, const struct qc_array *array, const char *type,
                               struct qc_status *st);

/* Sets how lists describe the storage of all arrays added afterwards; "memory" by default. */
bool qc_memory_data_storage(struct qc_memory_data *m, const char *storage, struct qc_status *st);

/* 64 hex digits that differ if names, types, shapes, preprocessing or values differ; equal values give equal digits,
   borrowed or drawn. Reads all rows. */
bool qc_memory_data_sha256(char hex[65], const struct qc_memory_data *m, struct qc_status *st);

/* As qc_dataset_open. m is borrowed and must stay unchanged until qc_dataset_free. Any number of data sets may be open
   on it, in any thread. */
bool qc_dataset_open_memory(struct qc_dataset **out, const struct qc_memory_data *m, const struct qc_input_spec *inputs,
                            size_t input_count, const struct qc_dataset_options *options, struct qc_status *st);

/* Access to the arrays of datasets/arrays/memory_data.h as data sets; private to datasets/. */

struct qc_memory_array {
    struct qc_data_entry entry;
    int64_t dims[QC_DATA_RANK_MAX];
    struct qc_preprocess preprocess;
    double peak;                    /* 0: none */
    bool named_by_file;             /* qc_array.named_by_file */
    size_t row_elements, row_bytes; /* of the largest */
    const int64_t *sizes;           /* [samples][rank - 1]; NULL: all are dims */
    const char *values;             /* borrowed; NULL: the rows are the reader's */
    struct qc_row_reader reader;    /* read NULL: no reader */
    void *user;
};

/* Lists the arrays in the order of addition; the list outlives m. */
bool qc_memory_data_list(struct qc_data_list *out, const struct qc_memory_data *m, struct qc_arena *a,
                         struct qc_status *st);
const struct qc_memory_array *qc_memory_array_find(const struct qc_memory_data *m,
                                                   const char *name); /* NULL if there is none */

/* Type and shape in the form of an open data set of a file, with id 0. */
void qc_memory_array_shape(struct qc_h5_set *out, const struct qc_memory_array *x);
bool qc_memory_array_copies(const struct qc_memory_array *x); /* qc_row_reader.copies; true if the rows are in memory */

/* Must be called before the first row is read. */
bool qc_memory_array_begin(const struct qc_memory_array *x, struct qc_status *st);
/* Removes rows that cannot be read from all arrays of m; *gone: how many. */
bool qc_memory_data_check(size_t *gone, struct qc_memory_data *m, const uint64_t *rows, size_t count,
                          struct qc_status *st);
/* Returns true if rows of an array may turn out to be unreadable. */
bool qc_memory_data_is_unsure(const struct qc_memory_data *m);

/* Reads count existing rows from first; a single row if rows differ in size. */
bool qc_memory_array_read(void *out, const struct qc_memory_array *x, int64_t first, int64_t count,
                          struct qc_status *st);
