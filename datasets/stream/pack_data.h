// SPDX-License-Identifier: Apache-2.0
/* Packs images and arrays into an HDF5 file, from which qc_dataset_open reads the same samples. */
#pragma once

#include "base/pool.h"
#include "datasets/samples/dataset.h"

struct qc_pack {
    const char *const *paths; /* folders and files, in this order */
    size_t count;
    const struct qc_input_spec *inputs; /* of the model; none: unknown */
    size_t input_count;
    const struct qc_dataset_options *options; /* image, labels, strict, workers, warn, and preprocess for attributes */
    qc_pool_progress_fn *progress;            /* may be NULL */
    void *progress_user;
};

/* Writes every array as a data set of its name; rows of equally named arrays are concatenated in the order of paths.
   Preprocessing becomes attributes of all but `labels` and `target`. *rows: number of rows. The bytes depend on the
   values alone. Fails like qc_dataset_open for each path; with QC_BAD_INPUT if arrays differ in length, type or shape;
   with QC_USAGE if a path is HDF5 already; with QC_MACHINE if the file cannot be written. */
bool qc_pack_write(size_t *rows, const char *file, const struct qc_pack *what, struct qc_status *st);
