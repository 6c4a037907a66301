// SPDX-License-Identifier: Apache-2.0
/* Comparison of tensors with expected ones. */
#pragma once

#include "graph/types/tensor.h"

/* Type and shape equal; integers equal; floats |got - want| <= absolute + relative * |want|, NaN equals NaN. relative 0
   stands for what the element type can hold (1e-5 for f32). Says where they differ (QC_DEMAND). */
struct tolerance {
    double relative, absolute;
};
bool tensor_within(const struct qc_tensor *got, const struct qc_tensor *want, struct tolerance t, struct qc_status *st);
bool tensor_near(const struct qc_tensor *got, const struct qc_tensor *want, double relative, struct qc_status *st);
