// SPDX-License-Identifier: Apache-2.0
/* Products with a dynamically quantized input (rewrite/passes/dynamic.h), as one ONNX Runtime operator, to which it
   would fuse the plain form: DynamicQuantizeMatMul if no other node reads the integers of the input, else
   MatMulIntegerToFloat after DynamicQuantizeLinear. An added bias is included. */
#include "export/formats/lowering.h"

/* Cast(MatMulInteger(q, w, z, zw)) * (s * sw) (+ bias) */
struct product {
    const struct qc_node *quantize, *product, *cast, *scales, *scaled, *add; /* add: NULL without a bias */
    qc_id weight_scale, bias, result;
    bool alone; /* no other node reads q, s and z */
};

static const struct qc_node *node_behind(const struct qc_graph *g, qc_id v, enum qc_op op)
{
    const struct qc_node *n = qc_node_of(g, v);
    return n && n->op == op ? n : NULL;
}

static bool is_bias(const struct qc_lowering *x, const struct qc_node *add, unsigned i, qc_id weight)
{
    const struct qc_shape *w = &x->from->values[weight].type.shape;
    const struct qc_tensor *t = qc_constant_of(x->from, add->inputs[i]);
    return t && t->dtype == QC_F32 && t->shape.rank == 1 && t->shape.dim[0] == w->dim[1];
}

/* *p: the product that ends in a multiplication. Returns false if y is none. */
static bool scaled(struct product *p, const struct qc_lowering *x, const struct qc_node *y)
{
    const struct qc_graph *g = x->from;
    const struct qc_node *cast = node_behind(g, y->inputs[0], QC_OP_Cast),
                         *scales = node_behind(g, y->inputs[1], QC_OP_Mul),
                         *product = cast ? node_behind(g, cast->inputs[0], QC_OP_MatMulInteger) : NULL,
                         *q = product ? node_behind(g, product->inputs[0], QC_OP_DynamicQuantizeLinear) : NULL;
    if (!scales || !q || product->input_count < 3 || product->inputs[2] != q->outputs + 2 ||
        scales->inputs[0] != q->outputs + 1)
        return false;
    const struct qc_tensor *w = qc_constant_of(g, product->inputs[1]), *s = qc_constant_of(g, scales->inputs[1]);
    if (!w || w->shape.rank != 2 || !s || !qc_only_reader(&x->uses, cast->outputs) ||
        !qc_only_reader(&x->uses, product->outputs) || !qc_only_reader(&x->uses, scales->outputs))
        return false;
    *p = (struct product){.quantize = q,
                          .product = product,
                          .cast = cast,
                          .scales = scales,
                          .scaled = y,
                          .weight_scale = scales->inputs[1],
                          .result = y->outputs,
                          .alone = true};
    for (unsigned k = 0; k < 3; k++) p->alone = p->alone && qc_only_reader(&x->uses, q->outputs + k);
    const qc_id reader = qc_only_reader(&x->uses, y->outputs);
    const struct qc_node *add = reader && g->nodes[reader].op == QC_OP_Add ? &g->nodes[reader] : NULL;
    for (unsigned i = 0; add && i < 2; i++)
        if (add->inputs[1 - i] == y->outputs && is_bias(x, add, i, product->inputs[1])) {
            p->add = add;
            p->bias = add->inputs[i];
            p->result = add->outputs;
        }
    return true;
}

/* *p: the product that a node is part of. Returns false if there is none. */
static bool leads_to(struct product *p, const struct qc_lowering *x, const struct qc_node *n)
{
    for (int steps = 0; steps < 5; steps++) {
        if (n->op == QC_OP_Mul && scaled(p, x, n)) return true;
        if (n->op == QC_OP_Add) {
            for (unsigned i = 0; i < 2; i++) {
                const struct qc_node *y = node_behind(x->from, n->inputs[i], QC_OP_Mul);
                if (y && scaled(p, x, y) && p->result == n->outputs) return true;
            }
            return false;
        }
        if (n->op != QC_OP_DynamicQuantizeLinear && n->op != QC_OP_MatMulInteger && n->op != QC_OP_Cast &&
            n->op != QC_OP_Mul)
            return false;
        const qc_id reader = qc_only_reader(&x->uses, n->outputs);
        if (!reader) return false;
        n = &x->from->nodes[reader];
    }
    return false;
}

static bool lower_product(struct qc_lowering *x, const struct product *p, struct qc_status *st)
{
    const qc_id q = p->quantize->outputs, zero = p->product->input_count > 3 ? p->product->inputs[3] : QC_ABSENT;
    const qc_id one[] = {p->quantize->inputs[0], p->product->inputs[1], p->weight_scale, zero, p->bias},
                two[] = {q, p->product->inputs[1], q + 1, p->weight_scale, q + 2, zero, p->bias};
    const qc_id *from = p->alone ? one : two;
    unsigned count = p->alone ? 5 : 7;
    qc_id in[7] = {QC_ABSENT};
    for (unsigned i = 0; i < count; i++)
        if (from[i] && !(in[i] = qc_lower_real(x, from[i], st))) return false;
    while (!in[count - 1]) count--;
    const char *name = qc_lower_inner_name(x, p->result, st);
    const struct qc_node_def def = {.op = p->alone ? QC_OP_DynamicQuantizeMatMul : QC_OP_MatMulIntegerToFloat,
                                    .name = p->product->name,
                                    .input_count = count,
                                    .inputs = in,
                                    .output_names = &name};
    return (x->real[p->result] = qc_graph_add(x->to, &def, st)) != 0;
}

bool qc_lower_dynamic(bool *done, struct qc_lowering *x, const struct qc_node *n, struct qc_status *st)
{
    struct product p = {.result = 0};
    *done = leads_to(&p, x, n) && (n == p.product || n == p.cast || n == p.scales || n == p.scaled || n == p.add ||
                                   (p.alone && n == p.quantize));
    return !*done || n->outputs != p.result || lower_product(x, &p, st);
}
