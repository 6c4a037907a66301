// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/exact_moves.h"

#include <string.h>

static bool pads_with_zero(const struct qc_graph *g, const struct qc_node *n)
{
    if (n->input_count < 3 || !n->inputs[2] || strcmp(qc_attr_string(n, "mode", "constant"), "constant") != 0)
        return true;
    const struct qc_tensor *t = qc_constant_of(g, n->inputs[2]);
    return t && t->count == 1 && qc_tensor_float(t, 0) == 0;
}

bool qc_moves_exactly(const struct qc_rules *rules, const struct qc_graph *g, const struct qc_node *n)
{
    switch (qc_rules_behaviour(rules, g, n)) {
    case QC_AFFINE_KEEP: return n->op != QC_OP_Pad || pads_with_zero(g, n);
    case QC_AFFINE_BOUND: return n->op == QC_OP_Relu;
    case QC_AFFINE_JOIN:
        for (unsigned i = 0; i < n->input_count; i++)
            if (qc_constant_of(g, n->inputs[i])) return false;
        return true;
    case QC_AFFINE_MERGE:
    case QC_AFFINE_PRODUCT:
    case QC_AFFINE_NONE: return false;
    }
    return false;
}
