// SPDX-License-Identifier: Apache-2.0
/* --scale-channels: scales channels between operators if that lowers the rounding error
   (quantize/scaling/scale_search.h). The scales come from second moments of the float network, so the search follows
   the stage "collect". It changes constants of the float graph, so the stages since "functions" run again. */
#pragma once

#include "quantize/pipeline_state.h"

struct qc_channel_scaling {
    size_t group_count;                   /* groups that could be scaled */
    const struct qc_scaled_group *groups; /* [group_count] */
};

/* Searches once, when p has statistics and its simulated graph is unbound. If a group gains, p->real is the scaled
   graph afterwards, and *again says that everything made from it must be made again. If ranges changed, p->seen is NULL
   and must be collected again. */
bool qc_scale_channels(bool *again, struct qc_pipeline *p, struct qc_status *st);

struct qc_report;
bool qc_fill_scaled(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);
