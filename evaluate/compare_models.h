// SPDX-License-Identifier: Apache-2.0
/* Compares two models on the same samples, layer by layer. */
#pragma once

#include "calib/metrics/compare.h"
#include "quantize/interface/inputs.h"
#include "quantize/setup/model.h"
#include "simq/plan/plan.h"

/* One layer: a result that exists in both graphs. */
struct qc_layer_pair {
    const char *name; /* name in the first graph, or in the second if the first has none; held by the graphs */
    enum qc_op op;    /* the op in the first graph */
    bool by_name;     /* else matched by order */
};

struct qc_layer_pairs {
    size_t count;
    struct qc_pair *values; /* [count], in the order of the second graph */
    struct qc_layer_pair *layers;
};

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
