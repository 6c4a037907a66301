// SPDX-License-Identifier: Apache-2.0
/* Converts values of a file to values of a tensor, preprocessing included; private to datasets/. */
#pragma once

#include "base/status.h"
#include "datasets/samples/preprocess.h"
#include "graph/types/dtype.h"

/* A tensor [outer, channels, inner]; channels is the channel axis of the input, 1 if it has none. */
struct qc_conversion {
    enum qc_dtype from, to;
    size_t outer, channels, inner;
    struct qc_preprocess preprocess; /* each count 0, 1 or channels */
    float scale;                     /* above 0: integers of `to` are round(real / scale) + zero_point */
    int32_t zero_point;
};

/* out and in do not overlap. An integer `to` with a scale quantizes real numbers (of a float type, or preprocessed),
   half to even and saturated; NaN fails with QC_BAD_INPUT. An integer `to` without one takes only integral values in
   its range; others fail with QC_BAD_INPUT, naming element and value. */
bool qc_convert_sample(void *out, const void *in, const struct qc_conversion *c, struct qc_status *st);

/* Returns true if the values are copied byte for byte. */
bool qc_conversion_is_copy(const struct qc_conversion *c);
