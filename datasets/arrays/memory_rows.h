// SPDX-License-Identifier: Apache-2.0
/* Access to the arrays of datasets/arrays/memory_data.h as data sets; private to datasets/. */
#pragma once

#include "datasets/arrays/memory_data.h"
#include "datasets/hdf5/hdf5_io.h"
#include "datasets/hdf5/spill.h"

struct qc_memory_array;

/* Lists the arrays in the order of addition. Names and shapes are borrowed from m. */
bool qc_memory_data_list(struct qc_data_list *out, const struct qc_memory_data *m, struct qc_arena *a,
                         struct qc_status *st);
/* The same with copies that outlive m. */
bool qc_memory_data_copy_list(struct qc_data_list *out, const struct qc_memory_data *m, struct qc_arena *a,
                              struct qc_status *st);
const struct qc_memory_array *qc_memory_array_find(const struct qc_memory_data *m,
                                                   const char *name); /* NULL if there is none */

/* Type and shape in the form of an open data set of a file, with id 0. */
void qc_memory_array_shape(struct qc_h5_set *out, const struct qc_memory_array *x);
const struct qc_preprocess *qc_memory_array_preprocess(const struct qc_memory_array *x);
double qc_memory_array_peak(const struct qc_memory_array *x);        /* 0: none */
bool qc_memory_array_named_by_file(const struct qc_memory_array *x); /* qc_array.named_by_file */
bool qc_memory_array_copies(const struct qc_memory_array *x); /* qc_row_reader.copies; true if the rows are in memory */

/* Must be called before the first row is read. */
bool qc_memory_array_begin(const struct qc_memory_array *x, struct qc_status *st);
/* Removes rows that cannot be read from all arrays of m; *gone: how many. */
bool qc_memory_data_check(size_t *gone, struct qc_memory_data *m, const uint64_t *rows, size_t count,
                          struct qc_status *st);
/* Returns true if rows of an array may turn out to be unreadable. */
bool qc_memory_data_is_unsure(const struct qc_memory_data *m);

/* Reads count existing rows from first; a single row if rows differ in size. */
bool qc_memory_array_read(void *out, const struct qc_memory_data *m, const struct qc_memory_array *x, int64_t first,
                          int64_t count, struct qc_status *st);
