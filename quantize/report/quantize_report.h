// SPDX-License-Identifier: Apache-2.0
/* The layers and the operators in float of a finished network. */
#pragma once

#include "quantize/report/job_report.h"

/* Fills the layers in the order of the network. m may be NULL. */
bool qc_fill_layers(struct qc_report *r, const struct qc_network *p, const struct qc_measurement *m,
                    struct qc_status *st);

/* Adds the layers of all bodies to those of the model, with names such as "loop/body/conv". */
bool qc_body_layers(struct qc_report *r, const struct qc_network *n, struct qc_status *st);

/* Returns the index of the first layer with the name of a quantizer, or QC_NO_INDEX. */
size_t qc_layer_of(const struct qc_report *r, const struct qc_graph *g, qc_id qparams);

/* Computes the loss of a float weight t. stored: its integers; s: bound; axis: that of the integers. */
void qc_weight_loss(struct qc_loss *out, const struct qc_tensor *t, const struct qc_tensor *stored,
                    const struct qc_qparams *s, int axis);

/* Adds the name, op and reason of the float ops of the produced graph and of its bodies to a list, and the number of
   quantized ops to *quantized. in: the body that p is of, or NULL. */
bool qc_float_ops(struct qc_json *list, size_t *quantized, const struct qc_network *p, const char *in,
                  struct qc_status *st);

/* Returns the node of p->folded that computes a stored value, looking through quantize and requantize; 0 if there is
   none. */
qc_id qc_maker(const struct qc_graph *folded, qc_id v);
