// SPDX-License-Identifier: Apache-2.0
/* Images whose channels lie on another axis than the model's: the last three axes of a data set are turned while it is
   read. Private to datasets/. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum qc_image_axes {
    QC_AXES_AS_THEY_ARE,
    QC_AXES_LAST, /* in the file [.., H, W, C] (NAME:nhwc), for the model [.., C, H, W] */
    QC_AXES_FIRST /* in the file [.., C, H, W] (NAME:nchw), for the model [.., H, W, C] */
};

/* NAME:nhwc or NAME:nchw: *length of NAME. Else QC_AXES_AS_THEY_ARE. */
enum qc_image_axes qc_axes_of(size_t *length, const char *dataset);

/* The shape in the file becomes that for the model; rank >= 3. */
void qc_axes_turn(int64_t *dims, unsigned rank, enum qc_image_axes axes);

/* `elements` values of `size` bytes each, whose last three dimensions are, for the model, dims[rank - 3 ..]. out and in
   do not overlap. */
void qc_axes_values(void *out, const void *in, size_t elements, size_t size, const int64_t *dims, unsigned rank,
                    enum qc_image_axes axes);
