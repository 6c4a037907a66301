// SPDX-License-Identifier: Apache-2.0
/* The stages that run the data: statistics, and parameters from them. */
#pragma once

#include "quantize/pipeline_state.h"

/* Sets p->seen: statistics of the simulated graph, with second moments if weights need them. Without samples and
   statistics it is empty; fails with QC_USAGE if something needs them. */
bool qc_stage_collect(struct qc_pipeline *p, struct qc_status *st);
/* Scales channels (quantize/scaling/scale_channels.h) and centres them (quantize/scaling/centre_channels.h). If it does,
   p->real and everything made from it are replaced. */
bool qc_stage_scale(struct qc_pipeline *p, struct qc_status *st);
/* With --method auto: chooses the observer of each quantizer. */
bool qc_stage_choose(struct qc_pipeline *p, struct qc_status *st);
/* Binds the quantizers of p->simulated; p->calibration has the choices and their reasons. */
bool qc_stage_bind(struct qc_pipeline *p, struct qc_status *st);

/* Keeps the statistics if they have everything that the simulated graph needs; else drops them, to be collected again.
   Fails with QC_UNSUPPORTED if they cannot be collected again. */
bool qc_reuse_statistics(struct qc_pipeline *p, struct qc_status *st);
