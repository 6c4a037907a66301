// SPDX-License-Identifier: Apache-2.0
/* Images as arrays of samples; private to datasets/. */
#pragma once

#include "datasets/arrays/data_readers.h"

/* A folder of JPEG, PNG and WebP files, or one such file. Gives an array of uint8 pixels with the input's name ("input"
   without one), sized by --image and the input. Subfolders give `labels`, numbered by the order of their names. An
   image is decoded when its row is read; the first ones stay in memory. qc_memory_data_check finds unreadable images:
   they are named in a warning, counted and left out, or are an error with options->strict. */
qc_is_data_fn qc_is_images;
qc_read_data_fn qc_read_images;
