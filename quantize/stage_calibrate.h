// SPDX-License-Identifier: Apache-2.0
/* The stage that runs the data: statistics, and parameters from them. */
#ifndef QC_QUANTIZE_STAGE_CALIBRATE_H
#define QC_QUANTIZE_STAGE_CALIBRATE_H

#include "quantize/pipeline_state.h"

bool qc_stage_calibrate(struct qc_pipeline *p, struct qc_status *st);

/* Keeps of the statistics what the simulated graph needs; when something is missing all of it goes, to be collected
   again. Errors: QC_UNSUPPORTED where it cannot be collected again. */
bool qc_reuse_statistics(struct qc_pipeline *p, struct qc_status *st);

#endif
