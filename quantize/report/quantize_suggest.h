// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"
#include "quantize/report/command_text.h"

/* A change of options that may help; texts in the arena of the pipeline. */
struct qc_idea {
    struct qc_command_change change;
    bool anew;          /* channels are evened out again, or data run again (qc_pipeline_branch) */
    bool mends;         /* what breaks a network, channels that are unlike: worth another job */
    const char *action; /* what it does, a sentence */
    const char *node;   /* where; NULL: everywhere */
    size_t layer;       /* index of the layer to look at, or QC_NO_INDEX */
};

enum { QC_IDEAS = 8 };
struct qc_ideas {
    size_t count;
    struct qc_idea of[QC_IDEAS];
};

/* Where error enters, and why: of the worst layers of the ranking (quantize/report/layer_ranking.h), in its order. Adds
   ideas for the first whose cause is known, where there is an option for it. Nothing without a measurement (NULL).
   Needs the ranking and everything before it of r. */
bool qc_fill_suggestions(struct qc_report *r, struct qc_ideas *ideas, const struct qc_pipeline *p,
                         const struct qc_measurement *m, struct qc_status *st);
