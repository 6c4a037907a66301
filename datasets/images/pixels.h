// SPDX-License-Identifier: Apache-2.0
/* A decoded image, and what decodes one. Private to datasets/. All decoders: errors are QC_BAD_INPUT (truncated,
   damaged, of more pixels than are read), QC_UNSUPPORTED (a form that is not read), QC_MACHINE (memory). They read no
   byte behind the given ones, whatever these say. */
#pragma once

#include <stddef.h>

#include "base/budget.h"

/* What Pillow takes for a bomb, too. */
enum { QC_PIXELS_MAX = 178956970 };

struct qc_pixels {
    unsigned width, height, channels; /* 1: grey, 3: red, green, blue */
    unsigned orientation;             /* Exif's, 1 to 8: 1 is upright */
    unsigned char *data;              /* [height][width][channels], malloc */
};

/* Room for an image; asks the budget for `times` its bytes. */
bool qc_pixels_new(struct qc_pixels *out, size_t width, size_t height, unsigned channels, unsigned times,
                   const struct qc_budget *budget, struct qc_status *st);
void qc_pixels_free(struct qc_pixels *p); /* safe on a zeroed one */

/* Turned upright. */
bool qc_pixels_turn(struct qc_pixels *p, const struct qc_budget *budget, struct qc_status *st);
/* To one channel: (19595 R + 38470 G + 7471 B + 2^15) / 2^16, Pillow's "L"; or from one to three. */
bool qc_pixels_channels(struct qc_pixels *p, unsigned channels, const struct qc_budget *budget, struct qc_status *st);
/* Pillow's Image.resize(BILINEAR), to the bit: a triangle as wide as a pixel of the result, first along rows, then
   along columns, each rounded to 8 bits, in fixed point of 22 bits. */
bool qc_pixels_resize(struct qc_pixels *p, unsigned width, unsigned height, const struct qc_budget *budget,
                      struct qc_status *st);

/* The tag Orientation of an Exif block (a TIFF header and its first directory); 1 when there is none or it makes no
   sense. */
unsigned qc_exif_orientation(const unsigned char *bytes, size_t size);

typedef bool qc_decode_fn(struct qc_pixels *out, const unsigned char *bytes, size_t size,
                          const struct qc_budget *budget, struct qc_status *st);
qc_decode_fn qc_decode_jpeg; /* baseline and progressive; grey, YCbCr, RGB, CMYK, YCCK */
qc_decode_fn qc_decode_png; /* all colour types and depths, interlaced too; alpha is left out, of 16 bits the upper 8 */
qc_decode_fn qc_decode_webp; /* lossy and lossless; of an animation the first frame; alpha is left out */

/* Any of them, by content. */
qc_decode_fn qc_decode_image;
