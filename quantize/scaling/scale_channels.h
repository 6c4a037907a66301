// SPDX-License-Identifier: Apache-2.0
/* --scale-channels: channels are scaled between operators where that lowers the error of rounding
   (quantize/scaling/scale_search.h). Scales come from second moments of the float network, so the search stands behind
   collecting; then the float graph has other constants, and the stages up to this one are made from it again. */
#pragma once

#include "quantize/pipeline_state.h"

struct qc_channel_scaling {
    size_t group_count;                   /* that could be scaled */
    const struct qc_scaled_group *groups; /* [group_count] */
};

/* Searches once, when p has statistics and its simulated graph is not bound. Where some group gains, p->real is the
   scaled graph afterwards, and *again says that what was made of it is to be made anew; where ranges are others,
   p->seen is NULL: to be collected again. */
bool qc_scale_channels(bool *again, struct qc_pipeline *p, struct qc_status *st);

struct qc_report;
bool qc_fill_scaled(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);
