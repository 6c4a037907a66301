// SPDX-License-Identifier: Apache-2.0
/* The stages that choose weights and biases by the moments of what layers read. Without moments, and with weights to
   nearest and biases as they are, none of them does anything. */
#pragma once

#include "quantize/pipeline_state.h"

bool qc_stage_round(struct qc_pipeline *p, struct qc_status *st);
/* With --propagate: kept where it serves the outputs. Else rounds once more, on what the quantized network reads. */
bool qc_stage_refine(struct qc_pipeline *p, struct qc_status *st);
/* Biases by the errors of the network. The moments go where nothing asks for them again. */
bool qc_stage_correct(struct qc_pipeline *p, struct qc_status *st);
