// SPDX-License-Identifier: Apache-2.0
/* Arrays of datasets/stream/memory_data.h as data sets; private to datasets/. */
#ifndef QC_DATASETS_STREAM_MEMORY_ROWS_H
#define QC_DATASETS_STREAM_MEMORY_ROWS_H

#include "datasets/hdf5/hdf5_io.h"
#include "datasets/hdf5/spill.h"
#include "datasets/stream/memory_data.h"

struct qc_memory_array;

/* In the order in which they were added. Names and shapes are borrowed from m. */
bool qc_memory_data_list(struct qc_data_list *out, const struct qc_memory_data *m, struct qc_arena *a,
                         struct qc_status *st);
const struct qc_memory_array *qc_memory_array_find(const struct qc_memory_data *m,
                                                   const char *name); /* NULL: there is none */

/* Type and shape as those of an open data set of a file; id 0. */
void qc_memory_array_shape(struct qc_h5_set *out, const struct qc_memory_array *x);
const struct qc_preprocess *qc_memory_array_preprocess(const struct qc_memory_array *x);
double qc_memory_array_peak(const struct qc_memory_array *x); /* 0: none */

/* count rows from first, which are there. */
bool qc_memory_array_read(void *out, const struct qc_memory_data *m, const struct qc_memory_array *x, int64_t first,
                          int64_t count, struct qc_status *st);

#endif
