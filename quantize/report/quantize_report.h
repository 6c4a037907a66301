// SPDX-License-Identifier: Apache-2.0
/* The layers and the operators in float of a finished network. */
#pragma once

#include "quantize/report/job_report.h"

/* Fills the layers in the order of the network. m may be NULL. */
bool qc_fill_layers(struct qc_report *r, const struct qc_network *p, const struct qc_measurement *m,
                    struct qc_status *st);

/* Adds the name, op and reason of the float ops of the produced graph to a list, and the number of quantized ops to
 *quantized. in: the body that p is of, or NULL. */
bool qc_float_ops(struct qc_json *list, size_t *quantized, const struct qc_network *p, const char *in,
                  struct qc_status *st);

/* Add the layers, and the operators in float, of all bodies to those of the model, with names such as
   "loop/body/conv". */
bool qc_body_layers(struct qc_report *r, const struct qc_network *n, struct qc_status *st);
bool qc_body_float_ops(struct qc_json *list, size_t *quantized, const struct qc_network *n, const char *in,
                       struct qc_status *st);

/* Returns the node of p->folded that computes a stored value, looking through quantize and requantize; 0 if there is
   none. */
qc_id qc_maker(const struct qc_graph *folded, qc_id v);
