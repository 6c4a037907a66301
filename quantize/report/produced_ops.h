// SPDX-License-Identifier: Apache-2.0
/* Ops of what a pipeline made: which stay in float and why, and what a stored value comes from. */
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* Float ops of the produced graph, each with the reason; number of matches in *quantized. Arrays from the arena. */
bool qc_float_ops(const struct qc_float_op **out, size_t *count, size_t *quantized, const struct qc_pipeline *p,
                  struct qc_status *st);

/* Why an op of the produced graph is a float op. */
const char *qc_float_reason(const struct qc_pipeline *p, const struct qc_node *n);

/* The node of p->folded that a stored value comes from: of a requantize, the one whose accumulator it reads; 0:
   none. */
qc_id qc_maker(const struct qc_graph *folded, qc_id v);
