// SPDX-License-Identifier: Apache-2.0
/* Results of a run as an HDF5 file: one data set per output, one sample per chunk, shuffle (for elements of more than
   one byte) and gzip 4. The bytes depend on the values alone: not on threads, time or the order of arrival. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "datasets/samples/preprocess.h"
#include "graph/types/tensor.h"

struct qc_writer_output {
    const char *name;
    enum qc_dtype dtype;
};

struct qc_writer;

/* Starts PATH as a temporary file beside it (base/file.h). batch as of qc_dataset_batch: an output whose first
   dimension is batch gives `batch` samples per unit, data set [samples, rest...]; any other output (and all when batch
   is 0) gives one entry per unit, data set [units, shape...]. The data set's path is the output's name; '/' in it makes
   groups ("/a/b" and "a/b" are group a, data set b). A name that HDF5 cannot hold so (empty or "." components, or a
   path that another output needs as a group or has taken) is stored at top level with '/' as %2F, '.' as %2E and '%' as
   %25, the empty name as '%'; a '%' more at the end where even that is taken. Every data set has a string attribute
   `name`: the output's exact name, by which dataset.h finds it again. float16 and bfloat16 are 2-byte HDF5 floats, bool
   is h5py's enum, u4 and i4 are one per byte. QC_MACHINE: the file cannot be made. Names are copied. */
bool qc_writer_open(struct qc_writer **out, const char *path, const struct qc_writer_output *outputs,
                    size_t output_count, int64_t batch, struct qc_status *st);

/* Unit `unit` of one output, row-major, shape dims[rank]: from 0, each exactly once for every output, in any order and
   from any thread. Deflates in the caller's thread; data that arrive early wait, compressed, until it is their turn.
   Where the shapes of an output differ (and batch is at most 1) its path is a group with a data set for each unit: 0,
   1,
   ..., each of the unit's whole shape. QC_UNSUPPORTED when the shape differs from the first unit's for a larger batch,
   or in the number of axes; QC_MACHINE when the disk is full. */
bool qc_writer_put(struct qc_writer *w, size_t output, size_t unit, const void *data, const int64_t *dims,
                   unsigned rank, struct qc_status *st);

/* Attributes `scale`, `mean` and `std` of an output, before its first unit; copied. */
bool qc_writer_preprocess(struct qc_writer *w, size_t output, const struct qc_preprocess *p, struct qc_status *st);

/* Shape of an output's data set as it is so far, [samples, rest...], which is cut behind QC_RANK_MAX axes; of a group
   [units, shape...] with -1 for what differs. */
struct qc_shape qc_writer_shape(const struct qc_writer *w, size_t output);

/* Path inside the file of an output's data set or group; borrowed. */
const char *qc_writer_path(const struct qc_writer *w, size_t output);

/* Closes and renames to PATH. Without any unit each output is an empty data set [0]. A unit that was not put for every
   output is QC_BAD_INPUT naming it. */
bool qc_writer_commit(struct qc_writer *w, struct qc_status *st);
void qc_writer_free(struct qc_writer *w); /* NULL-safe; without commit nothing is left behind */
