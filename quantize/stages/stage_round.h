// SPDX-License-Identifier: Apache-2.0
/* The stages that round weights and correct biases with the second moments of the layers' inputs. They do nothing
   without moments, and if options ask for neither. */
#pragma once

#include "quantize/pipeline_state.h"

bool qc_stage_round(struct qc_pipeline *p, struct qc_status *st);
/* With --propagate: keeps it only if it improves the outputs. Else refines weights on the inputs of the quantized
   network. */
bool qc_stage_refine(struct qc_pipeline *p, struct qc_status *st);
/* Corrects biases by the mean error of the outputs. Drops the second moments if nothing needs them again. */
bool qc_stage_correct(struct qc_pipeline *p, struct qc_status *st);
