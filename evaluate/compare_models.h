// SPDX-License-Identifier: Apache-2.0
/* Compares two models on the same samples, layer by layer. */
#pragma once

#include "evaluate/compare_layers.h"
#include "quantize/interface/progress.h"
#include "quantize/opening/model.h"
#include "simq/plan/plan.h"

struct qc_compared_models {
    struct qc_model first, second;
    struct qc_plan_options how[2];
    bool contracts; /* a rounding was named for each graph */
    bool both;      /* ... or an accumulator */
    struct qc_dataset *data;
    struct qc_layer_pairs pairs;
    struct qc_comparison *result;
};

/* Opens both models, matches their layers and runs them. o: of QC_COMMAND_compare; its arena holds the pairs. out must
   be zeroed, and closed in any case. Fails with QC_USAGE; if the models take different inputs; or like opening and
   running them. */
bool qc_compare_models(struct qc_compared_models *out, const struct qc_model_source sources[2],
                       const struct qc_data_source *data, const struct qc_options *o, struct qc_progress *progress,
                       struct qc_warnings *w, struct qc_status *st);
void qc_compared_models_close(struct qc_compared_models *c);
