// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* Fills the boxes of the produced graph for the drawing. Call after qc_fill_layers. */
bool qc_fill_nodes(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);

/* Fills the fused group of each multiply-accumulate op and, if it breaks, at which node and why. */
bool qc_fill_groups(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);
