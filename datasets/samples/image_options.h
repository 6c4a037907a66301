// SPDX-License-Identifier: Apache-2.0
/* --image: how images become the input of a model. */
#pragma once

#include <stdbool.h>

#include "base/status.h"

enum qc_image_layout { QC_LAYOUT_OF_MODEL, QC_LAYOUT_NCHW, QC_LAYOUT_NHWC };
enum qc_image_color { QC_COLOR_OF_MODEL, QC_COLOR_RGB, QC_COLOR_BGR, QC_COLOR_GREY };
enum qc_image_resize {
    QC_RESIZE_COVER, /* just large enough to cover the crop */
    QC_RESIZE_SHORT, /* the short side becomes resize_height */
    QC_RESIZE_EXACT, /* to resize_height x resize_width, ignoring proportions */
    QC_RESIZE_NONE
};
enum { QC_IMAGE_SIDE_MAX = 65536 };

struct qc_image_options {
    enum qc_image_resize resize;
    unsigned resize_height, resize_width;
    unsigned crop_height, crop_width; /* centred; 0: the size of the model's input */
    enum qc_image_layout layout;
    enum qc_image_color color;
};

/* Parses words `resize=256`, `resize=HEIGHTxWIDTH`, `resize=none`, `crop=224`, `crop=HEIGHTxWIDTH`, `layout=nchw|nhwc`,
   `color=rgb|bgr|grey`, each at most once, separated by blanks or commas. Fails with QC_USAGE, naming the word. */
bool qc_image_options_parse(struct qc_image_options *out, const char *text, struct qc_status *st);
