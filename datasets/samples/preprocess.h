// SPDX-License-Identifier: Apache-2.0
/* Preprocessing of a data set's values: y = (x * scale - mean) / std, in float32, each step rounded, in this order
   (what numpy's float32 arithmetic gives for x.astype(float32) * scale - mean, then / std). */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/arena.h"

/* Each list has 1 value (all channels) or one per channel of axis 1; count 0 means that the step is absent.
   Values are finite; no value of std is 0. */
struct qc_preprocess {
    const float *scale, *mean, *std;
    size_t scale_count, mean_count, std_count;
    bool bgr; /* of a recipe for images whose colours are blue, green, red */
};

/* Parses the text of --preprocess: words `scale=LIST`, `mean=LIST`, `std=LIST` in any order, each at most once, at
   least one; a LIST is numbers or fractions a/b with commas between (`1/255`, `.485,.456,.406`). `none` gives no step
   at all. Instead of words a recipe by name: `imagenet` (torchvision), `tensorflow` (-1 to 1), `caffe` (means of blue,
   green, red), `yolo` (0 to 1). A fraction is divided in double and rounded to float32 once. The lists live in the
   arena. QC_USAGE names the word. */
bool qc_preprocess_parse(struct qc_preprocess *out, const char *text, struct qc_arena *a, struct qc_status *st);

/* With lists of its own in the arena. */
bool qc_preprocess_copy(struct qc_preprocess *out, const struct qc_preprocess *p, struct qc_arena *a,
                        struct qc_status *st);

/* True when there is no step: values pass unchanged. */
bool qc_preprocess_is_none(const struct qc_preprocess *p);
