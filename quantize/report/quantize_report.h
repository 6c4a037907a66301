// SPDX-License-Identifier: Apache-2.0
/* Fills the report from a finished network. */
#pragma once

#include "calib/metrics/measure.h"
#include "calib/metrics/sensitivity.h"
#include "export/report/report.h"
#include "quantize/make/network.h"

/* Fills the layers in the order of the network. m may be NULL. */
bool qc_fill_layers(struct qc_report *r, const struct qc_network *p, const struct qc_measurement *m,
                    struct qc_status *st);

/* Fills the overflows of accumulators of fewer than 32 bits, counted on `samples` samples of a file. Does nothing with
   32 bits. */
bool qc_fill_accumulator(struct qc_report *r, const struct qc_network *p, const struct qc_overflows *o,
                         const char *file, size_t samples, struct qc_status *st);

/* Fills the effects of single layers on the outputs. */
bool qc_fill_effects(struct qc_report *r, const struct qc_sensitivity *s, struct qc_arena *a, struct qc_status *st);

/* Fills r->outputs, in arena a. m may be NULL. Warns if parts that share a scale have very different errors. */
bool qc_fill_outputs(struct qc_report *r, const struct qc_network *net, const struct qc_measurement *m,
                     struct qc_arena *a, struct qc_status *st);
/* Lists the inputs and outputs that --io-type made integers. */
bool qc_fill_ports(struct qc_report *r, const struct qc_network *net, struct qc_arena *a, struct qc_status *st);

/* Fills the boxes of the produced graph for the drawing. Call after qc_fill_layers. */
bool qc_fill_nodes(struct qc_report *r, const struct qc_network *p, struct qc_status *st);
/* Fills the fused group of each multiply-accumulate op and, if it breaks, at which node and why. */
bool qc_fill_groups(struct qc_report *r, const struct qc_network *p, struct qc_status *st);

/* Lists the float ops of the produced graph with their reasons; *quantized: number of quantized ops. Arrays are from
   the arena of p. */
bool qc_float_ops(const struct qc_float_op **out, size_t *count, size_t *quantized, const struct qc_network *p,
                  struct qc_status *st);

/* Append the layers, and the operators in float, of all bodies to those of the model, with names such as
   "loop/body/conv". */
bool qc_body_layers(struct qc_report *r, const struct qc_network *n, struct qc_status *st);
bool qc_body_float_ops(struct qc_report *r, const struct qc_network *n, struct qc_status *st);

/* Returns the node of p->folded that computes a stored value, looking through quantize and requantize; 0 if there is
   none. */
qc_id qc_maker(const struct qc_graph *folded, qc_id v);
