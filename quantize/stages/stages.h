// SPDX-License-Identifier: Apache-2.0
/* The table of the stages of quantize; each works on the results of the earlier ones. */
#pragma once

#include "quantize/pipeline_state.h"

struct qc_stage {
    const char *name, *summary;
    bool (*run)(struct qc_pipeline *p, struct qc_status *st);
    const struct qc_graph *(*graph)(const struct qc_pipeline *p); /* its result; NULL: the stage makes no graph */
    bool repeated; /* depends on the quantization scheme: qc_pipeline_again runs it again */
    /* called after `run` in a repetition, to reuse earlier results; may be NULL */
    bool (*reuse)(struct qc_pipeline *p, struct qc_status *st);
};

size_t qc_stage_count(void);
const struct qc_stage *qc_stage_at(size_t i);
const struct qc_stage *qc_stage_find(const char *name); /* name: of an existing stage */

/* Returns the produced graph with the float types of the model, for exporters. */
const struct qc_graph *qc_graph_written(const struct qc_pipeline *p);
