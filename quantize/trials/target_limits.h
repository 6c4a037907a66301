// SPDX-License-Identifier: Apache-2.0
/* What a target demands of parameters that were chosen (rewrite/language/target.h). */
#pragma once

#include "graph/core/graph.h"
#include "rewrite/language/target.h"

/* Results whose parameters the target fixes get them; then as qc_keep_runtime_limits, where ONNX Runtime runs the file.
   g: simulated, bound. */
bool qc_keep_target_limits(struct qc_graph *g, const struct qc_target *t, struct qc_status *st);
