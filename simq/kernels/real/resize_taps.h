// SPDX-License-Identifier: Apache-2.0
/* Inside simq/: which input elements make each output element of Resize along one axis (Resize-19). The arithmetic
   is float32 in the order of ONNX Runtime, so ties round the same way. */
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
    bool antialias; /* linear and cubic: a shrinking axis averages all elements that it covers */
};

struct qc_resize_axis {
    int64_t in, out;          /* sizes, both positive */
    float scale;              /* out / in as given by the model, positive */
    float length;             /* in * scale before rounding to out, or out: the length that ONNX aligns corners with */
    float roi_begin, roi_end; /* QC_RESIZE_TF_CROP_AND_RESIZE */
};

/* Output i is the sum over k < taps of weight[i*taps + k] * input[index[i*taps + k]]. */
struct qc_resize_taps {
    int64_t taps;
    int64_t *index; /* [out*taps], inside the input */
    float *weight;  /* [out*taps] */
    bool *outside;  /* [out] for QC_RESIZE_TF_CROP_AND_RESIZE: the coordinate is outside the input; else NULL */
    bool identity;
};

/* Computes the taps. Arrays are allocated in the arena. Fails if out of memory. */
bool qc_resize_taps_of(struct qc_resize_taps *out, const struct qc_resize_axis *axis, const struct qc_resize_options *o,
                       struct qc_arena *a, struct qc_status *st);
