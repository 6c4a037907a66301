// SPDX-License-Identifier: Apache-2.0
/* The stage of the bodies of If, Loop and Scan. Each body is quantized as a model of its own; its samples are its
   inputs over all iterations. Inputs and outputs of a body stay float. */
#pragma once

#include "export/formats/exporter.h"
#include "quantize/stages/body_samples.h"

bool qc_stage_bodies(struct qc_pipeline *p, struct qc_status *st);

/* Returns the graph with quantized bodies; if no body is quantized, the rounded or simulated graph. */
const struct qc_graph *qc_graph_with_bodies(const struct qc_pipeline *p);

/* Lowers the bodies of a lowered graph; *io is replaced if it has any. */
bool qc_lower_bodies(struct qc_graph **io, const struct qc_exporter *e, const struct qc_lower_options *options,
                     struct qc_status *st);
