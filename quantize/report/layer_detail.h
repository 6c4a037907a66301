// SPDX-License-Identifier: Apache-2.0
/* Details of a layer in the report: histogram, channels, loss. */
#pragma once

#include "graph/core/graph.h"
#include "graph/core/uses.h"
#include "quantize/report/job_report.h"

/* Fills the node, the histogram and the loss of an activation. made: the node of p->folded that computes it, or 0. */
bool qc_layer_activation(struct qc_layer *l, const struct qc_network *p, const struct qc_measurement *m,
                         qc_id quantizer, qc_id made, struct qc_status *st);
/* A weight to scan later: qc_layer_weights_look scans all weights in parallel. */
struct qc_weight_look {
    struct qc_layer *layer; /* NULL: nothing to scan */
    const struct qc_tensor *was, *stored;
    bool chosen; /* the integers were chosen by the moments */
    const struct qc_qparams *qparams;
    int axis;
    size_t inner;      /* elements after the channel axis */
    float *low, *high; /* [channels] */
    struct qc_outline *outline;
};
/* Prepares a weight. simulated: the stored values of p->simulated; value: its quantized form in g; stored: its
   integers; reader: the node that reads them, or 0; chosen: the moments chose them. */
bool qc_layer_weight(struct qc_weight_look *out, struct qc_layer *l, const struct qc_network *p,
                     const struct qc_graph *g, const struct qc_stored_values *simulated, qc_id quantizer, qc_id value,
                     const struct qc_tensor *stored, qc_id reader, bool chosen, struct qc_status *st);
bool qc_layer_weights_look(struct qc_weight_look *looks, size_t count, unsigned workers, struct qc_status *st);
/* Computes the loss of a float weight t. stored: its integers; s: bound; axis: that of the
   integers. */
void qc_weight_loss(struct qc_loss *out, const struct qc_tensor *t, const struct qc_tensor *stored,
                    const struct qc_qparams *s, int axis);

/* Fills r->layers_by_name for the layers of r, in the arena. */
bool qc_layers_index(struct qc_report *r, struct qc_arena *a, struct qc_status *st);

/* Returns the index of the first layer with the name of a quantizer, or QC_NO_INDEX. Needs qc_layers_index. */
size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams);
