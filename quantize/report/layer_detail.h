// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "export/report/report.h"
#include "graph/core/stored_values.h"
#include "observers/outline.h"
#include "quantize/pipeline_state.h"

/* What only people look at: node, histogram, channels, and what the parameters lose. made: a node of p->folded, or
   0; quantize: the node of g that makes the weight's integers; reader: the one that reads them, or 0. */
bool qc_layer_activation(struct qc_layer *l, const struct qc_pipeline *p, const struct qc_measurement *m,
                         qc_id quantizer, qc_id made, struct qc_status *st);
/* A weight's elements are looked at later, side by side with those of others. */
struct qc_weight_look {
    struct qc_layer *layer; /* NULL: there are none */
    const struct qc_tensor *was, *stored;
    const struct qc_qparams *qparams;
    int axis;
    size_t inner;      /* elements behind a channel */
    float *low, *high; /* of channels */
    struct qc_report_histogram *histogram;
    struct qc_outline *outline;
};
/* simulated: the stored values of p->simulated. */
bool qc_layer_weight(struct qc_weight_look *out, struct qc_layer *l, const struct qc_pipeline *p,
                     const struct qc_graph *g, const struct qc_stored_values *simulated, qc_id quantizer,
                     qc_id quantize, qc_id reader, struct qc_status *st);
bool qc_layer_weights_look(struct qc_weight_look *looks, size_t count, unsigned workers, struct qc_status *st);
/* What is lost of a float weight t; rounded: what its integers are made of; s: bound; axis: as of its Quantize. */
void qc_weight_loss(struct qc_loss *out, const struct qc_tensor *t, const struct qc_tensor *rounded,
                    const struct qc_qparams *s, int axis);
