// SPDX-License-Identifier: Apache-2.0
/* The stages from the float graph to the simulated one (quantize/stages/stages.h). */
#pragma once

#include "quantize/pipeline_state.h"

bool qc_stage_functions(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_partition(struct qc_pipeline *p, struct qc_status *st);
bool qc_stage_simulate(struct qc_pipeline *p, struct qc_status *st);
