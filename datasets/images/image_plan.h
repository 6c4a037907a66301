// SPDX-License-Identifier: Apache-2.0
/* Size, layout and colours that images get; private to datasets/. */
#pragma once

#include "datasets/images/pixels.h"
#include "datasets/samples/dataset.h"
#include "datasets/samples/image_options.h"

struct qc_image_plan {
    struct qc_image_options how; /* with layout, colours and crop settled */
    unsigned channels;           /* 1 or 3 */
    unsigned rank;               /* of one image: 2 to 3 */
    int64_t dims[3];
    size_t bytes;   /* of one image, one each element */
    char text[160]; /* the options that say all of it */
};

/* What `given` (NULL: nothing) leaves open follows from the input: [N,C,H,W], [N,H,W,C], [C,H,W], [H,W,C] or [N,H,W],
   where C is 1 or 3, as many as the image has. input NULL: three colours, NCHW. QC_USAGE: options that contradict the
   input or each other, a size that nobody says; QC_BAD_INPUT: an input that images do not fit. */
bool qc_image_plan_make(struct qc_image_plan *out, const struct qc_image_options *given,
                        const struct qc_input_spec *input, struct qc_status *st);

/* The input's bytes of an image file: decoded, turned upright, resized, cropped, in layout and colours of the plan. */
bool qc_image_plan_apply(unsigned char *out, const struct qc_image_plan *plan, const char *path,
                         const struct qc_budget *budget, struct qc_status *st);
