// SPDX-License-Identifier: Apache-2.0
/* Preprocessing of a data set's values: y = (x * scale - mean) / std in float32, in this order, each step rounded, like
   NumPy's (x.astype(float32) * scale - mean) / std. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/arena.h"

/* Each list has 1 value (all channels) or one per channel; count 0: the step is absent. Values are finite; no value of
   std is 0. */
struct qc_preprocess {
    const float *scale, *mean, *std;
    size_t scale_count, mean_count, std_count;
    bool bgr; /* set by a recipe for images in BGR order */
};

/* Parses the text of --preprocess: at least one of the words `scale=LIST`, `mean=LIST`, `std=LIST`, in any order, each
   at most once. A LIST has numbers or fractions a/b separated by commas (`1/255`, `.485,.456,.406`). `none` gives no
   step. Alternatively a recipe by name: `imagenet` (torchvision), `tensorflow` (-1 to 1), `caffe` (means of blue,
   green, red), `yolo` (0 to 1). A fraction is divided in double and rounded to float32 once. The lists are in the
   arena. Fails with QC_USAGE, naming the word. */
bool qc_preprocess_parse(struct qc_preprocess *out, const char *text, struct qc_arena *a, struct qc_status *st);

/* Copies p with its lists to the arena. */
bool qc_preprocess_copy(struct qc_preprocess *out, const struct qc_preprocess *p, struct qc_arena *a,
                        struct qc_status *st);

/* Returns true if there is no step: values pass unchanged. */
bool qc_preprocess_is_none(const struct qc_preprocess *p);

/* Prints " scale=A mean=B,.. std=C,..", the steps that there are; qc_preprocess_parse reads the same float32. */
void qc_preprocess_print(FILE *f, const struct qc_preprocess *p);
