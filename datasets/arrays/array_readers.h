// SPDX-License-Identifier: Apache-2.0
/* numpy's files as arrays of samples; private to datasets/. Values stay in the files until they are asked for. */
#ifndef QC_DATASETS_ARRAYS_ARRAY_READERS_H
#define QC_DATASETS_ARRAYS_ARRAY_READERS_H

#include "datasets/arrays/data_readers.h"

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

#endif
