// SPDX-License-Identifier: Apache-2.0
/* The name that identifies a value in statistics, across graphs of the same model. */
#pragma once

#include "graph/core/graph.h"

/* Returns the value that provides the name: v itself, or the input of unnamed Quantize and Dequantize nodes. */
qc_id qc_value_named(const struct qc_graph *g, qc_id v);
/* Returns the name, which identifies the value. An unnamed Quantize or Dequantize has the name of its input (with
   unbound qparams they are equal). A value without any name has its label, in the arena. */
const char *qc_value_name(const struct qc_graph *g, qc_id v, struct qc_arena *a, struct qc_status *st);
