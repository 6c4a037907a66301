// SPDX-License-Identifier: Apache-2.0
/* The stages that run the data: statistics, and parameters from them. */
#pragma once

#include "quantize/pipeline_state.h"

/* p->seen: statistics of the simulated graph, with second moments where weights need them. Without samples and without
   statistics: empty; QC_USAGE where something needs them. */
bool qc_stage_collect(struct qc_pipeline *p, struct qc_status *st);
/* Where channels are scaled (quantize/scaling/scale_channels.h) p->real and all that is made of it are others
 * afterwards. */
bool qc_stage_scale(struct qc_pipeline *p, struct qc_status *st);
/* With --method auto: which observer each quantizer gets. */
bool qc_stage_choose(struct qc_pipeline *p, struct qc_status *st);
/* Binds the quantizers of p->simulated; p->calibration has what was chosen, and why. */
bool qc_stage_bind(struct qc_pipeline *p, struct qc_status *st);

/* Keeps of the statistics what the simulated graph needs; when something is missing all of it goes, to be collected
   again. Errors: QC_UNSUPPORTED where it cannot be collected again. */
bool qc_reuse_statistics(struct qc_pipeline *p, struct qc_status *st);
