// SPDX-License-Identifier: Apache-2.0
/* Values of a file to values of a tensor, preprocessing included; private to datasets/. */
#pragma once

#include "base/status.h"
#include "datasets/samples/preprocess.h"
#include "graph/types/dtype.h"

/* A tensor [outer, channels, inner]; channels is axis 1 of the input, 1 when it has none. */
struct qc_conversion {
    enum qc_dtype from, to;
    size_t outer, channels, inner;
    struct qc_preprocess preprocess; /* each count 0, 1 or channels */
    float scale;                     /* above 0: integers of `to` are round(real / scale) + zero_point */
    int32_t zero_point;
};

/* out and in do not overlap. An integer `to` with a scale takes real numbers (of a float type, or preprocessed): they
   are quantized, half to even and saturated; NaN is QC_BAD_INPUT. Else it takes integral values inside its range only:
   QC_BAD_INPUT names element and value. */
bool qc_convert_sample(void *out, const void *in, const struct qc_conversion *c, struct qc_status *st);

/* True when the values are taken byte for byte. */
bool qc_conversion_is_copy(const struct qc_conversion *c);
