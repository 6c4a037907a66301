// SPDX-License-Identifier: Apache-2.0
/* What a reader of data is: one file that has these two functions, and one line in datasets/stream/readers.def. Private
   to datasets/. HDF5 is apart: it is read in a process of its own. */
#pragma once

#include "datasets/arrays/memory_data.h"

enum { QC_NAMED = 5 }; /* files that cannot be used are named so far; then they are only counted */

/* What is known of a path before it is opened. */
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
    const struct qc_input_spec *inputs; /* those that will be bound; none where data are only listed or copied */
    size_t input_count;
    const struct qc_dataset_options *options;
};

typedef bool qc_is_data_fn(const struct qc_data_look *look);
/* Adds arrays to m. The message names the path itself where it does so for a file in a folder. */
typedef bool qc_read_data_fn(struct qc_memory_data *m, const struct qc_data_call *call, struct qc_status *st);

/* The input that a folder's files feed: the only one. QC_USAGE where there are several. *out NULL: nobody asks. */
bool qc_data_folder_input(const struct qc_input_spec **out, const struct qc_data_call *call, struct qc_status *st);

/* options->labels is for images. QC_USAGE: arrays have their own. */
bool qc_data_no_table(const struct qc_data_call *call, struct qc_status *st);

/* Tells options->warn, where it is there; of more than a few of a kind the caller says how many. */
void qc_data_warn(const struct qc_dataset_options *options, const char *fmt, ...) QC_PRINTF(2, 3);

/* numpy's files as arrays of samples. Values stay in the files until they are asked for. */

/* One array, named as the file without .npy. */
qc_is_data_fn qc_is_npy;
qc_read_data_fn qc_read_npy;

/* An array for each member; scalars are left out. */
qc_is_data_fn qc_is_npz;
qc_read_data_fn qc_read_npz;

/* A folder of .npy files in the order of their names: each is one sample, or, where its rank is that of the input (or
   one more), a batch of them along axis 0. Dims that the input leaves free may differ from file to file. labels.npy and
   target.npy are what they are in other files; folders labels/ and target/ have a file for each sample. The array has
   the input's name; without one it is "input", and each file is a sample. Files that cannot be read are warned about
   and left out, or with options->strict an error. QC_BAD_INPUT: files of different types or shapes, none at all. */
qc_is_data_fn qc_is_npy_folder;
qc_read_data_fn qc_read_npy_folder;
