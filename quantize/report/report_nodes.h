// SPDX-License-Identifier: Apache-2.0
/* The operators of the produced graph: boxes of the drawing, fused groups, those in float. */
#pragma once

#include "export/report/report.h"
#include "quantize/make/network.h"

/* Fills the boxes of the produced graph for the drawing. Call after qc_fill_layers. */
bool qc_fill_nodes(struct qc_report *r, const struct qc_network *p, struct qc_status *st);

/* Fills the fused group of each multiply-accumulate op and, if it breaks, at which node and why. */
bool qc_fill_groups(struct qc_report *r, const struct qc_network *p, struct qc_status *st);

/* Lists the float ops of the produced graph with their reasons; *quantized: number of quantized ops. Arrays are from
   the arena of p. */
bool qc_float_ops(const struct qc_float_op **out, size_t *count, size_t *quantized, const struct qc_network *p,
                  struct qc_status *st);

/* Returns the node of p->folded that computes a stored value, looking through quantize and requantize; 0 if there is
   none. */
qc_id qc_maker(const struct qc_graph *folded, qc_id v);
