// SPDX-License-Identifier: Apache-2.0
/* Functions: rules that define an operator of a file by other operators (docs/rule-language.md, "Functions").

   function GroupNormalization(x, scale, bias) opset 21 {num_groups, epsilon = 1e-5}
     let  y = ...
     give y * scale + bias */
#pragma once

#include "graph/core/call.h"
#include "rewrite/language/rule.h"

/* Returns the expander that an import calls (onnx/read/import.h). r is borrowed and must outlive it. */
struct qc_expander qc_rules_expander(const struct qc_rules *r);

/* Returns true if v is a constant, or computed from constants by a few operators, except those that quantize. */
bool qc_is_constant(const struct qc_graph *g, qc_id v);

/* For lists of functions, in the order of the files. */
struct qc_function_info {
    const char *name, *file;
    unsigned line;
    int opset_from, opset_to; /* to: 1000000: no end */
};
struct qc_function_info qc_rules_function(const struct qc_rules *r, size_t i); /* i < r->function_count */
