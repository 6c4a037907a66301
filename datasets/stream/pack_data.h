// SPDX-License-Identifier: Apache-2.0
/* Images and arrays into an HDF5 file: what qc_dataset_open reads from there is what it reads from the folder. */
#pragma once

#include "base/pool.h"
#include "datasets/samples/dataset.h"

struct qc_pack {
    const char *const *paths; /* folders and files, in this order */
    size_t count;
    const struct qc_input_spec *inputs; /* of the model; none: nobody knows */
    size_t input_count;
    const struct qc_dataset_options *options; /* image, labels, strict, workers, warn, and preprocess for attributes */
    qc_pool_progress_fn *progress;            /* NULL: nobody listens */
    void *progress_user;
};

/* Writes every array as a data set of its name; rows of those that several paths have come one behind the other.
   Preprocessing becomes attributes of all but `labels` and `target`. *rows: how many. The bytes depend on the values
   alone. Errors: as qc_dataset_open of each path; QC_BAD_INPUT: arrays of different lengths, types or shapes; QC_USAGE:
   a path that is HDF5 already; QC_MACHINE: the file cannot be written. */
bool qc_pack_write(size_t *rows, const char *file, const struct qc_pack *what, struct qc_status *st);
