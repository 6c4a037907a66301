// SPDX-License-Identifier: Apache-2.0
/* The name by which statistics of a value are found again in another graph of the same model. */
#pragma once

#include "graph/core/graph.h"

/* The value whose name that is: it itself, or the op under a dequantize without one. */
qc_id qc_value_named(const struct qc_graph *g, qc_id v);
/* The whole name: values are told apart by it. Of a dequantize without one it is that of the op under it (with unbound
   qparams they are one value); of a value without any its label, from the arena. */
const char *qc_value_name(const struct qc_graph *g, qc_id v, struct qc_arena *a, struct qc_status *st);
