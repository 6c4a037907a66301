// SPDX-License-Identifier: Apache-2.0
/* THE table of stages of quantize: each makes one more thing from what the earlier ones left. */
#pragma once

#include "quantize/pipeline_state.h"

struct qc_stage {
    const char *name, *summary;
    bool (*run)(struct qc_pipeline *p, struct qc_status *st);
    const struct qc_graph *(*graph)(const struct qc_pipeline *p); /* what it made; NULL: no graph */
    bool repeated; /* depends on what is quantized and how: qc_pipeline_again runs it once more */
    /* behind run when it is repeated: what of before serves again; NULL: nothing to do */
    bool (*reuse)(struct qc_pipeline *p, struct qc_status *st);
};

size_t qc_stage_count(void);
const struct qc_stage *qc_stage_at(size_t i);
const struct qc_stage *qc_stage_find(const char *name); /* that there is */

/* What was produced, with the float types of the model: what exporters are given. */
const struct qc_graph *qc_graph_written(const struct qc_pipeline *p);
