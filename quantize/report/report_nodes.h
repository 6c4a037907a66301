// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* Fills the boxes of the produced graph for the drawing. Call after qc_fill_layers. */
bool qc_fill_nodes(struct qc_report *r, const struct qc_pipeline *p, struct qc_status *st);
