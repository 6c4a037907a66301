// SPDX-License-Identifier: Apache-2.0
/* Images as arrays of samples; private to datasets/. */
#pragma once

#include "datasets/arrays/data_readers.h"

/* A folder of JPEG, PNG and WebP, or one of them. An array of uint8 pixels with the input's name ("input" without one),
   sized as --image and the input say; a folder of folders gives `labels`, by the names of the folders in order. An
   image is decoded when its row is read; the first ones stay in memory. Images that cannot be read are found out by
   qc_memory_data_check: named in a warning, counted and left out, or with options->strict an error. */
qc_is_data_fn qc_is_images;
qc_read_data_fn qc_read_images;
