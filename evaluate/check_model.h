// SPDX-License-Identifier: Apache-2.0
/* Judges a quantized model of any tool for a target (docs/check.md). */
#pragma once

#include "base/json.h"
#include "quantize/interface/inputs.h"
#include "quantize/interface/warnings.h"
#include "quantize/options/options.h"

/* One thing that is wrong. kind: "scale", "saturation", "fusion", "type", "form", "repeated" or "unused". */
struct qc_finding {
    const char *kind, *name, *text;
};

struct qc_model_check {
    size_t products, integer_products;   /* products of the model, and those that the target computes in integers */
    double integer_share, latency;       /* share of the multiply-adds; estimated time relative to the float model.
                                            NaN: unknown */
    size_t samples, finding_count, room; /* samples: that ran for saturation */
    struct qc_finding *findings;         /* by kind, then in the order of the graph */
};

/* Checks a model file for o->target, with the samples of `data` if there are any; all in o->arena. o: of
   QC_COMMAND_check. Fails with QC_UNSUPPORTED if the model is not quantized or has unknown operators, or like
   qc_model_open. */
bool qc_check_model(struct qc_model_check *out, const char *file, const struct qc_data_source *data,
                    const struct qc_options *o, struct qc_progress *progress, struct qc_warnings *w,
                    struct qc_status *st);
