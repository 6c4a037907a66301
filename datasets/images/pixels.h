// SPDX-License-Identifier: Apache-2.0
/* Decoded images and their decoders. Private to datasets/. Decoders fail with QC_BAD_INPUT (truncated, damaged, too
   many pixels), QC_UNSUPPORTED (a variant that is not read) or QC_MACHINE (memory). They never read beyond the given
   bytes. */
#pragma once

#include <stddef.h>

#include "base/budget.h"

/* The limit at which Pillow refuses an image as a decompression bomb. */
enum { QC_PIXELS_MAX = 178956970 };

struct qc_pixels {
    unsigned width, height, channels; /* 1: grey, 3: red, green, blue */
    unsigned orientation;             /* Exif's, 1 to 8: 1 is upright */
    unsigned char *data;              /* [height][width][channels], malloc */
};

/* Allocates an image; asks the budget for `times` its bytes. */
bool qc_pixels_new(struct qc_pixels *out, size_t width, size_t height, unsigned channels, unsigned times,
                   const struct qc_budget *budget, struct qc_status *st);
void qc_pixels_free(struct qc_pixels *p); /* safe on a zeroed one */

/* Turns the image upright. */
bool qc_pixels_turn(struct qc_pixels *p, const struct qc_budget *budget, struct qc_status *st);
/* Converts to one channel, (19595 R + 38470 G + 7471 B + 2^15) / 2^16 as Pillow's "L", or from one to three. */
bool qc_pixels_channels(struct qc_pixels *p, unsigned channels, const struct qc_budget *budget, struct qc_status *st);
/* Resizes exactly like Pillow's Image.resize(BILINEAR): a triangle filter as wide as an output pixel, first along rows,
   then along columns, each rounded to 8 bits, in 22-bit fixed point. */
bool qc_pixels_resize(struct qc_pixels *p, unsigned width, unsigned height, const struct qc_budget *budget,
                      struct qc_status *st);

/* Returns the tag Orientation of an Exif block (a TIFF header and its first directory), or 1 if it is absent or
   invalid. */
unsigned qc_exif_orientation(const unsigned char *bytes, size_t size);

typedef bool qc_decode_fn(struct qc_pixels *out, const unsigned char *bytes, size_t size,
                          const struct qc_budget *budget, struct qc_status *st);
qc_decode_fn qc_decode_jpeg; /* baseline and progressive; grey, YCbCr, RGB, CMYK, YCCK */
qc_decode_fn qc_decode_png;  /* all colour types and depths, interlaced too; drops alpha and the lower 8 of 16 bits */
qc_decode_fn qc_decode_webp; /* lossy and lossless; first frame of an animation; drops alpha */

/* Chooses the decoder by content. */
qc_decode_fn qc_decode_image;
