// SPDX-License-Identifier: Apache-2.0
/* A data reader is one file with these two functions and one line in datasets/stream/readers.def. Private to datasets/.
   HDF5 is separate: it is read in a process of its own. */
#pragma once

#include "datasets/arrays/memory_data.h"

enum { QC_NAMED = 5 }; /* unusable files are named up to this number, then only counted */

/* The facts about a path before it is opened. */
struct qc_data_look {
    const char *path;
    bool is_folder;
    enum qc_follow follow;
    size_t size; /* bytes at head */
    unsigned char head[16];
};

struct qc_data_call {
    const char *path;
    bool is_folder;
    const struct qc_input_spec *inputs; /* the inputs to be bound; none if data are only listed or copied */
    size_t input_count;
    const struct qc_dataset_options *options;
};

typedef bool qc_is_data_fn(const struct qc_data_look *look);
/* Adds arrays to m. For a file in a folder, the error message names the path. */
typedef bool qc_read_data_fn(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st);

/* Returns the only input, which the files of a folder feed; *out is NULL if no inputs are given. Fails with QC_USAGE if
   there are several. */
bool qc_data_folder_input(const struct qc_input_spec **out, const struct qc_data_call *call, struct qc_status *st);

/* Fails with QC_USAGE if options->labels is set: it is for images; arrays have their own labels. */
bool qc_data_no_table(const struct qc_data_call *call, struct qc_status *st);

/* Calls options->warn unless it is NULL. If there are many warnings of a kind, the caller prints their number
   instead. */
void qc_data_warn(const struct qc_dataset_options *options, const char *fmt, ...) QC_PRINTF(2, 3);

/* NumPy files as arrays of samples. Values stay in the files until they are read. */

/* One array, named like the file without .npy. */
qc_is_data_fn qc_is_npy;
qc_read_data_fn qc_read_npy;

/* One array for each member; scalars are left out. */
qc_is_data_fn qc_is_npz;
qc_read_data_fn qc_read_npz;

/* A folder of .npy files in the order of their names. Each file is one sample or, if its rank is that of the input or
   one more, a batch along axis 0. Dims that the input leaves free may differ between files. labels.npy and target.npy
   have the meaning of data sets `labels` and `target`; folders labels/ and target/ have one file for each sample. The
   array has the input's name; without an input it is "input", and each file is one sample. Unreadable files are left
   out with a warning, or are an error with options->strict. Fails with QC_BAD_INPUT if files differ in type or shape,
   or if there are none. */
qc_is_data_fn qc_is_npy_folder;
qc_read_data_fn qc_read_npy_folder;

/* A folder of .npz files in the order of their names. Each file is one sample or, if an array has the rank of its input
   or one more, a batch along axis 0. All files have the arrays of the first one. Fails if a file cannot be read, or if
   arrays differ in type or in a dim that their input fixes. */
qc_is_data_fn qc_is_npz_folder;
qc_read_data_fn qc_read_npz_folder;

/* Opening data by path; private to datasets/. */

/* Opens the data at call->path; *out is NULL for an HDF5 file. Fails like qc_dataset_open. */
bool qc_data_source_open(struct qc_memory_data **out, const struct qc_data_call *call, struct qc_status *st);

/* Images as arrays of samples; private to datasets/. */

/* A folder of JPEG, PNG and WebP files, or one such file. Gives an array of uint8 pixels with the input's name ("input"
   without one), sized by --image and the input. Subfolders give `labels`, numbered by the order of their names. An
   image is decoded when its row is read; the first ones stay in memory. qc_memory_data_check finds unreadable images:
   they are named in a warning, counted and left out, or are an error with options->strict. */
qc_is_data_fn qc_is_images;
qc_read_data_fn qc_read_images;
