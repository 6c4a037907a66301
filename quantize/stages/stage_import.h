// SPDX-License-Identifier: Apache-2.0
/* The stages that bring model and data into the form that is quantized; 'qcalib collect' needs the first two. */
#pragma once

#include "quantize/pipeline_state.h"

bool qc_stage_import(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_normalise(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_equalize(struct qc_pipeline *p, struct qc_status *st);
