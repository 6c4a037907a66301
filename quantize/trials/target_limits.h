// SPDX-License-Identifier: Apache-2.0
/* Adapts chosen parameters to the limits of a target (rewrite/language/target.h). */
#pragma once

#include "graph/core/graph.h"
#include "rewrite/language/target.h"

/* Sets the parameters that the target fixes for results of an operator, and the type of symmetric data with negative
   values; then calls qc_keep_runtime_limits if ONNX Runtime runs the file. g: simulated, bound. */
bool qc_keep_target_limits(struct qc_graph *g, const struct qc_target *t, struct qc_status *st);

/* Rounds biases to 8 bits for a target with `bias int8` (qc_short_bias_shift). Makes *out, a copy of g with other
   biases; NULL if nothing changes. */
bool qc_shorten_biases(struct qc_graph **out, const struct qc_graph *g, const struct qc_target *t,
                       struct qc_status *st);
