// SPDX-License-Identifier: Apache-2.0
/* --encodings FILE: given parameters of tensors by name (docs/encodings.md). */
#pragma once

#include "graph/core/graph.h"
#include "quantize/interface/warnings.h"
#include "rewrite/passes/given.h"

/* Adds the parameters of a JSON file for values and constants of g to *given; of a tensor that has some already they
   take their place. The file has encodings of AIMET (0.6.1, 1.0, 2.0) or QNN, or tensor overrides of ONNX Runtime.
   Warns of entries that cannot be used: unknown names, floats, widths other than 4, 8 and 16 bits, blocks, types
   without a range. Biases of 32 bits are left out silently. Arrays are in the arena. Fails with QC_BAD_INPUT if the
   file is none of these forms, or an entry is not valid, naming the tensor. */
bool qc_add_encodings(struct qc_given_values *given, const char *file, const struct qc_graph *g, struct qc_arena *a,
                      struct qc_warnings *w, struct qc_status *st);
