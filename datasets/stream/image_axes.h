// SPDX-License-Identifier: Apache-2.0
/* Images whose channels are on another axis than the model's: the last three axes are reordered while reading. Private
   to datasets/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qc_image_axes {
    QC_AXES_AS_THEY_ARE,
    QC_AXES_LAST, /* in the file [.., H, W, C] (NAME:nhwc), for the model [.., C, H, W] */
    QC_AXES_FIRST /* in the file [.., C, H, W] (NAME:nchw), for the model [.., H, W, C] */
};

/* Parses the suffix of NAME:nhwc or NAME:nchw; *length: of NAME. Returns QC_AXES_AS_THEY_ARE without a suffix. */
enum qc_image_axes qc_axes_of(size_t *length, const char *dataset);

/* Turns the shape in the file into the model's; rank >= 3. */
void qc_axes_turn(int64_t *dims, unsigned rank, enum qc_image_axes axes);

/* Reorders `elements` values of `size` bytes; dims[rank - 3 ..] are the model's last three dimensions. out and in do
   not overlap. */
void qc_axes_values(void *out, const void *in, size_t elements, size_t size, const int64_t *dims, unsigned rank,
                    enum qc_image_axes axes);
