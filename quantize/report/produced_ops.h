// SPDX-License-Identifier: Apache-2.0
/* The ops of the produced graph: which stay in float and why, and which node computes a stored value. */
#pragma once

#include "export/report/report.h"
#include "quantize/pipeline_state.h"

/* Lists the float ops of the produced graph with their reasons; *quantized: number of quantized ops. Arrays are from
   the arena of p. */
bool qc_float_ops(const struct qc_float_op **out, size_t *count, size_t *quantized, const struct qc_pipeline *p,
                  struct qc_status *st);

/* Returns why an op of the produced graph stays in float. */
const char *qc_float_reason(const struct qc_pipeline *p, const struct qc_node *n);

/* Returns the node of p->folded that computes a stored value, looking through quantize and requantize; 0 if there is
   none. */
qc_id qc_maker(const struct qc_graph *folded, qc_id v);
