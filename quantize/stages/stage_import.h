// SPDX-License-Identifier: Apache-2.0
/* The stages that open model and data and normalise the graph; 'qcalib collect' needs the first two. */
#pragma once

#include "quantize/pipeline_state.h"

bool qc_stage_import(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_normalise(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_equalize(struct qc_pipeline *p, struct qc_status *st);
