// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: which input elements make each output element of Resize along one axis (Resize-19; arithmetic in
   float32 in the order of ONNX Runtime, so that ties fall the same way). */
#pragma once

#include "base/arena.h"

enum qc_resize_mode { QC_RESIZE_NEAREST, QC_RESIZE_LINEAR, QC_RESIZE_CUBIC };
enum qc_resize_coordinate {
    QC_RESIZE_HALF_PIXEL,
    QC_RESIZE_HALF_PIXEL_SYMMETRIC,
    QC_RESIZE_PYTORCH_HALF_PIXEL,
    QC_RESIZE_ALIGN_CORNERS,
    QC_RESIZE_ASYMMETRIC,
    QC_RESIZE_TF_CROP_AND_RESIZE
};
enum qc_resize_nearest { QC_RESIZE_ROUND_PREFER_FLOOR, QC_RESIZE_ROUND_PREFER_CEIL, QC_RESIZE_FLOOR, QC_RESIZE_CEIL };

struct qc_resize_options {
    enum qc_resize_mode mode;
    enum qc_resize_coordinate coordinate;
    enum qc_resize_nearest nearest;
    float cubic_a;
    bool exclude_outside;
    bool antialias; /* linear and cubic: what shrinks takes from all elements it covers */
};

struct qc_resize_axis {
    int64_t in, out;          /* sizes, both positive */
    float scale;              /* out / in as the model has it, positive */
    float length;             /* in * scale before it was rounded to out, or out: what ONNX takes the corners of */
    float roi_begin, roi_end; /* QC_RESIZE_TF_CROP_AND_RESIZE */
};

/* Output i is the sum over k < taps of weight[i*taps + k] * input[index[i*taps + k]]. */
struct qc_resize_taps {
    int64_t taps;
    int64_t *index; /* [out*taps], inside the input */
    float *weight;  /* [out*taps] */
    bool *outside;  /* [out] of QC_RESIZE_TF_CROP_AND_RESIZE: the coordinate is outside the input; else NULL */
    bool identity;
};

/* Arrays are made in the arena. Errors: out of memory. */
bool qc_resize_taps_of(struct qc_resize_taps *out, const struct qc_resize_axis *axis, const struct qc_resize_options *o,
                       struct qc_arena *a, struct qc_status *st);
