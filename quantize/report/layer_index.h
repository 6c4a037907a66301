// SPDX-License-Identifier: Apache-2.0
/* Finds layers of a report by the names of their quantizers. */
#pragma once

#include "export/report/report.h"
#include "graph/core/graph.h"

/* Fills r->layers_by_name for the layers of r, in the arena. */
bool qc_layers_index(struct qc_report *r, struct qc_arena *a, struct qc_status *st);

/* Returns the index of the first layer with the name of a quantizer, or QC_NO_INDEX. Needs qc_layers_index. */
size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams);
