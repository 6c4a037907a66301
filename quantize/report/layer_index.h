// SPDX-License-Identifier: Apache-2.0
/* The layers of a report by the names of their quantizers. */
#pragma once

#include "export/report/report.h"
#include "graph/core/graph.h"

/* Fills r->layers_by_name, in the arena, of the layers that r has. Errors: memory. */
bool qc_layers_index(struct qc_report *r, struct qc_arena *a, struct qc_status *st);

/* Number of the layer of a quantizer, the first of that name, or QC_NO_INDEX. Of layers that are indexed. */
size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams);
