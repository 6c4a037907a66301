// SPDX-License-Identifier: Apache-2.0
/* The bias behind a product of more than two dimensions. ONNX Runtime (1.32) joins a MatMul of fixed shapes and an Add
   of [N] or [1,N] to a Gemm in float, which dequantizes the weight in every run. A bias of three dimensions is left
   alone, and the product becomes MatMulIntegerToFloat. Where the sum is stored, the Gemm becomes a QGemm that stores
   it, which is faster still. */
#include "export/formats/lowering.h"

/* The product of integers whose real form this is, or NULL. */
static const struct qc_node *product_behind(const struct qc_graph *g, qc_id v)
{
    const struct qc_node *d = qc_node_of(g, v),
                         *n = d && d->op == QC_OP_Dequantize ? qc_node_of(g, d->inputs[0]) : NULL;
    return n && n->op == QC_OP_MatMul ? n : NULL;
}

static bool is_stored(const struct qc_lowering *x, qc_id v)
{
    const qc_id reader = qc_only_reader(&x->uses, v);
    return reader && x->from->nodes[reader].op == QC_OP_Quantize;
}

bool qc_lower_is_bias(const struct qc_lowering *x, const struct qc_node *n, unsigned input)
{
    const struct qc_graph *g = x->from;
    if (n->op != QC_OP_Add || is_stored(x, n->outputs)) return false;
    const struct qc_tensor *bias = qc_constant_of(g, n->inputs[input]);
    const struct qc_node *product = product_behind(g, n->inputs[1 - input]);
    if (!bias || !product || g->values[n->inputs[input]].type.qparams != QC_REAL) return false;
    const struct qc_shape *left = &g->values[product->inputs[0]].type.shape,
                          *right = &g->values[product->inputs[1]].type.shape;
    return left->rank > 2 && right->rank == 2 && qc_shape_fixed(left) && bias->shape.rank > 0 && bias->shape.rank < 3 &&
           (int64_t)bias->count == right->dim[1] && bias->shape.dim[bias->shape.rank - 1] == right->dim[1];
}

qc_id qc_lower_bias(struct qc_lowering *x, qc_id v, struct qc_status *st)
{
    const struct qc_value *value = &x->from->values[v];
    const struct qc_shape shape = QC_SHAPE(1, 1, (int64_t)value->constant->count);
    struct qc_tensor *t = qc_tensor_of(value->constant->dtype, &shape, value->constant->data, st);
    const qc_id id = t ? qc_graph_add_constant(x->to, value->name, t, st) : 0;
    qc_tensor_unref(t);
    return id;
}
