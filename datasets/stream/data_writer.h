// SPDX-License-Identifier: Apache-2.0
/* Results of a run as an HDF5 file: one data set per output, one sample per chunk, compressed on request by
   shuffle (for elements of more than one byte) and gzip 1. The bytes depend on the values alone, not on threads, time
   or order of arrival. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/pool.h"
#include "datasets/samples/dataset.h"
#include "datasets/samples/preprocess.h"
#include "graph/types/tensor.h"

struct qc_writer_output {
    const char *name;
    enum qc_dtype dtype;
};

struct qc_writer;

/* Starts PATH as a temporary file beside it (base/file.h). batch as of qc_dataset_batch: an output whose first
   dimension is batch gives `batch` samples per unit, data set [samples, rest...]. Any other output (and all if batch is
   0) gives one entry per unit, data set [units, shape...].

   The path of a data set is the output's name, where '/' makes groups ("/a/b" and "a/b" are group a, data set b). Some
   names cannot be paths: empty or "." components, or a path that another output has or needs as a group. They are
   stored at top level with '/' as %2F, '.' as %2E and '%' as %25, the empty name as '%'; further '%' are appended while
   the path is taken. Every data set has a string attribute `name`, the output's exact name, by which dataset.h finds
   it.

   float16 and bfloat16 are stored as 2-byte HDF5 floats, bool as h5py's enum, u4 and i4 one per byte. Fails with
   QC_MACHINE if the file cannot be made. Names are copied. */
bool qc_writer_open(struct qc_writer **out, const char *path, const struct qc_writer_output *outputs,
                    size_t output_count, int64_t batch, bool compressed, struct qc_status *st);

/* Adds unit `unit` (from 0) of one output, row-major, of shape dims[rank]. Each unit is put exactly once for every
   output, in any order and from any thread. Compresses in the caller's thread; early units wait for their
   turn. If the shapes of an output differ (and batch is at most 1), its path becomes a group with data sets 0, 1, ...,
   each of its unit's whole shape. Fails with QC_UNSUPPORTED if batch > 1 and the shape differs, or if the number of
   axes differs; with QC_MACHINE if the disk is full. */
bool qc_writer_put(struct qc_writer *w, size_t output, size_t unit, const void *data, const int64_t *dims,
                   unsigned rank, struct qc_status *st);

/* Sets the attributes `scale`, `mean` and `std` of an output, before its first unit; copied. */
bool qc_writer_preprocess(struct qc_writer *w, size_t output, const struct qc_preprocess *p, struct qc_status *st);

/* Returns the current shape of an output's data set, [samples, rest...], cut after QC_RANK_MAX axes; for a group
   [units, shape...] with -1 for dims that differ. */
struct qc_shape qc_writer_shape(const struct qc_writer *w, size_t output);

/* Returns the path of an output's data set or group in the file; borrowed. */
const char *qc_writer_path(const struct qc_writer *w, size_t output);

/* Closes the file and renames it to PATH. Without any unit each output is an empty data set [0]. Fails with
   QC_BAD_INPUT, naming the unit, if one was not put for every output. */
bool qc_writer_commit(struct qc_writer *w, struct qc_status *st);
void qc_writer_free(struct qc_writer *w); /* NULL-safe; removes an uncommitted file */

/* Packs images and arrays into an HDF5 file, from which qc_dataset_open reads the same samples. */

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
