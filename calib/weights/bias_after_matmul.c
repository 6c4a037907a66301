// SPDX-License-Identifier: Apache-2.0
#include "calib/weights/round_weights_parts.h"

/* Returns the constant operand of an Add with one number per output; 0: none. */
static qc_id addend(const struct qc_uses *u, const struct qc_node *n, size_t outputs)
{
    const struct qc_graph *g = u->graph;
    for (unsigned i = 0; n->op == QC_OP_Add && i < 2; i++) {
        const struct qc_tensor *t = qc_constant_of(g, n->inputs[i]);
        if (t && t->dtype == QC_F32 && t->count == outputs && t->shape.rank &&
            t->shape.dim[t->shape.rank - 1] == (int64_t)outputs)
            return n->inputs[i];
    }
    return 0;
}

/* Returns true if a node stays a float operator. Operators that only move or bound elements, and tables, may become
   integer ones. */
static bool stays_float(const struct qc_node *n)
{
    const bool arithmetic = n->op == QC_OP_Add || n->op == QC_OP_Sub || n->op == QC_OP_Mul || n->op == QC_OP_Div;
    return arithmetic || (qc_op_info(n->op)->affine == QC_AFFINE_NONE && n->op != QC_OP_Quantize);
}

static bool read_in_float(const struct qc_uses *u, qc_id v)
{
    const struct qc_use_list readers = qc_readers(u, v);
    for (size_t i = 0; i < readers.count; i++)
        if (!stays_float(&u->graph->nodes[readers.of[i].node])) return false;
    return true;
}

/* Returns the size of a row of the node's result; 0: unknown. */
static int64_t outputs_of(const struct qc_graph *g, qc_id node)
{
    const struct qc_shape *s = &g->values[g->nodes[node].outputs].type.shape;
    return s->rank > 0 && s->dim[s->rank - 1] > 0 ? s->dim[s->rank - 1] : 0;
}

qc_id qc_bias_after_matmul(const struct qc_uses *u, qc_id node, bool make)
{
    const struct qc_graph *g = u->graph;
    const struct qc_node *n = &g->nodes[node];
    const qc_id dequantize = n->op == QC_OP_MatMul ? qc_only_reader(u, n->outputs) : 0;
    if (!dequantize || g->nodes[dequantize].op != QC_OP_Dequantize) return 0;
    const qc_id v = g->nodes[dequantize].outputs, add = qc_only_reader(u, v);
    const int64_t outputs = outputs_of(g, node);
    if (!outputs) return 0;
    if (add && addend(u, &g->nodes[add], (size_t)outputs)) return add;
    return make && read_in_float(u, v) ? dequantize : 0;
}

const struct qc_tensor *qc_round_weights_addend(const struct qc_uses *u, qc_id node)
{
    const qc_id behind = qc_bias_after_matmul(u, node, false);
    const qc_id v = behind ? addend(u, &u->graph->nodes[behind], (size_t)outputs_of(u->graph, node)) : 0;
    return v ? qc_constant_of(u->graph, v) : NULL;
}

bool qc_round_weights_copy_behind(struct qc_rebuild *b, const struct qc_uses *u, qc_id product, qc_id node,
                                  struct qc_tensor *bias, struct qc_status *st)
{
    const struct qc_graph *g = u->graph;
    const struct qc_node *n = &g->nodes[node], *p = &g->nodes[product];
    char name[QC_LABEL];
    qc_id inputs[2];
    if (n->op == QC_OP_Add) {
        const qc_id old = addend(u, n, (size_t)outputs_of(g, product));
        const char *own =
            qc_all_uses(u, old).count == 1 ? g->values[old].name : NULL; /* other readers keep the old constant */
        for (unsigned i = 0; i < 2; i++)
            if (!(inputs[i] = n->inputs[i] == old ? qc_graph_add_constant(b->to, own, bias, st)
                                                  : qc_rebuild_value(b, n->inputs[i], st)))
                return false;
        const struct qc_node_def with = {.inputs = inputs};
        return (b->map[n->outputs] = qc_graph_add_like(b->to, g, n, &with, st)) != 0;
    }
    qc_text(name, sizeof name, "%.200s/bias", p->name ? p->name : "");
    if (!qc_rebuild_node(b, node, st) || !(inputs[0] = b->map[n->outputs]) ||
        !(inputs[1] = qc_graph_add_constant(b->to, NULL, bias, st)))
        return false;
    const struct qc_node_def def = {.op = QC_OP_Add, .name = name, .input_count = 2, .inputs = inputs};
    return (b->map[n->outputs] = qc_graph_add(b->to, &def, st)) != 0;
}

bool qc_round_weights_shift_behind(struct qc_rebuild *b, const struct qc_round_weights_layer *l, struct qc_status *st)
{
    const struct qc_tensor *old = qc_round_weights_addend(l->uses, l->node);
    const struct qc_shape flat = QC_SHAPE((int64_t)l->moments->outputs);
    struct qc_tensor *t = qc_tensor_new(QC_F32, old ? &old->shape : &flat, st);
    for (size_t o = 0; t && o < l->moments->outputs; o++)
        ((float *)t->data)[o] = (float)((old ? (double)((const float *)old->data)[o] : 0) + l->made[o].shift);
    const bool ok = t && qc_round_weights_copy_behind(b, l->uses, l->node, l->behind, t, st);
    qc_tensor_unref(t);
    return ok;
}
