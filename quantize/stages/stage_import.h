// SPDX-License-Identifier: Apache-2.0
/* The stages that bring model and data into the form that is quantized; 'qcalib collect' needs the first two. */
#ifndef QC_QUANTIZE_STAGES_STAGE_IMPORT_H
#define QC_QUANTIZE_STAGES_STAGE_IMPORT_H

#include "quantize/pipeline_state.h"

bool qc_stage_import(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_normalise(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_equalize(struct qc_pipeline *p, struct qc_status *st);

#endif
