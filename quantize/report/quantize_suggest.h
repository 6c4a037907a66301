// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"
#include "quantize/report/command_text.h"

/* A change of options that may help; texts in the arena of the pipeline. */
struct qc_idea {
    struct qc_command_change change;
    bool anew;          /* equalization and data must run again (qc_pipeline_branch) */
    bool mends;         /* repairs outlier channels, which break a network: tried at any cost */
    const char *action; /* description, a sentence */
    const char *node;   /* NULL: all layers */
    size_t layer;       /* index of the layer to look at, or QC_NO_INDEX */
};

enum { QC_IDEAS = 8 };
struct qc_ideas {
    size_t count;
    struct qc_idea of[QC_IDEAS];
};

/* Explains the error of the worst layers of the ranking (quantize/report/layer_ranking.h), in its order. Adds ideas for
   the first ones whose cause is known and has a remedy. Does nothing without a measurement (m NULL). Needs the ranking
   of r and everything before it. */
bool qc_fill_suggestions(struct qc_report *r, struct qc_ideas *ideas, const struct qc_pipeline *p,
                         const struct qc_measurement *m, struct qc_status *st);
