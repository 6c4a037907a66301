// SPDX-License-Identifier: Apache-2.0
/* A residual sum before a LayerNormalization. ONNX Runtime (1.32) fuses an Add of three dimensions and the
   normalisation to SkipLayerNormalization, whose CPU kernel takes 2.5 times as long as both (32 x 128: 22 us against 4
   + 5). It does not fuse Sum, which gives the same bits. */
#include "export/formats/lowering.h"

static bool is_real_activation(const struct qc_graph *g, qc_id v)
{
    const struct qc_type *t = &g->values[v].type;
    return t->dtype == QC_F32 && t->qparams == QC_REAL && t->shape.rank == 3 && !qc_constant_of(g, v);
}

bool qc_lower_is_residual(const struct qc_lowering *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->from;
    if (n->op != QC_OP_Add || !is_real_activation(g, n->outputs) || !is_real_activation(g, n->inputs[0]) ||
        !is_real_activation(g, n->inputs[1]))
        return false;
    const qc_id reader = qc_only_reader(&x->uses, n->outputs);
    return reader && g->nodes[reader].op == QC_OP_LayerNormalization && g->nodes[reader].inputs[0] == n->outputs;
}
