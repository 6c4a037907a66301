// SPDX-License-Identifier: Apache-2.0
/* The stage of the bodies of If, Loop and Scan. Each is a model of its own to quantize: its samples are what the model
   around it hands to it, over all iterations. Values at its border stay float. */
#pragma once

#include "export/formats/exporter.h"
#include "quantize/stages/body_samples.h"

bool qc_stage_bodies(struct qc_pipeline *p, struct qc_status *st);

/* The graph with what became of its bodies in their place, or the graph itself where none is quantized. */
const struct qc_graph *qc_graph_with_bodies(const struct qc_pipeline *p);

/* Bodies of a lowered graph are lowered too. */
bool qc_lower_bodies(struct qc_graph **io, const struct qc_exporter *e, const struct qc_lower_options *options,
                     struct qc_status *st);
