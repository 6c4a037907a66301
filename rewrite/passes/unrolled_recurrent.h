// SPDX-License-Identifier: Apache-2.0
/* Recurrent operators as matrix products and elementwise operators, step by step. */
#pragma once

#include "graph/core/graph.h"

/* Replaces each RNN, GRU and LSTM of at most 256 known steps by the operators of its steps. Others stay: those with
   lengths, peepholes, clipping, activations of their own, layout 1, or inputs that are rounded at run time. */
bool qc_unroll_recurrent(struct qc_graph **out, const struct qc_graph *g, struct qc_status *st);
