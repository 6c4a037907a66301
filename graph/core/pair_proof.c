// SPDX-License-Identifier: Apache-2.0
#include "graph/core/pair_proof.h"

#include "graph/core/pair_order.h"
#include "graph/core/recurrent.h"

static bool pairs_fit(const struct qc_tensor *weights, const struct qc_pair_order *o, int32_t limit)
{
    const int8_t *x = weights->data;
    for (int64_t channel = 0; channel < o->channels; channel++)
        for (int64_t i = 0; i + 1 < o->count; i += 2) {
            const int32_t a = x[qc_pair_order_at(o, channel, i)], b = x[qc_pair_order_at(o, channel, i + 1)];
            if ((a > 0 ? a : 0) + (b > 0 ? b : 0) > limit || (a < 0 ? -a : 0) + (b < 0 ? -b : 0) > limit) return false;
        }
    return true;
}

static void prove_product(struct qc_pair_proof *p, const struct qc_graph *g, qc_id id, qc_id weights,
                          const struct qc_pair_order *order, int32_t limit)
{
    const struct qc_tensor *t = qc_constant_of(g, weights);
    if (!limit || g->values[weights].type.dtype != QC_I8) return;
    p->products++;
    if (t && t->dtype == QC_I8 && pairs_fit(t, order, limit)) return;
    if (!p->saturating++) p->first = id;
}

/* Returns the pair limit for the data type and highest level of a value. */
static int32_t limit_of_data(const struct qc_graph *g, qc_id value)
{
    const qc_id q = g->values[value].type.qparams;
    const enum qc_dtype t = g->values[value].type.dtype;
    if (t != QC_U8 && t != QC_I8) return 0;
    return qc_pair_limit(t, q && g->qparams_of[q].kind == QC_QPARAMS_QUANTIZER ? qc_qparams_levels(&g->qparams_of[q]).hi
                                                                               : qc_levels_of(t, false).hi);
}

/* For an LSTM that quantizes its inputs at run time. */
static void prove_recurrent(struct qc_pair_proof *p, const struct qc_graph *g, qc_id id)
{
    const struct qc_node *n = &g->nodes[id];
    if (!qc_attr_int(n, QC_RECURRENT_DYNAMIC, 0)) return;
    for (unsigned i = QC_RECURRENT_W; i <= QC_RECURRENT_R; i++) {
        const struct qc_node *d = qc_node_of(g, n->inputs[i]);
        if (d && d->op == QC_OP_Reshape) d = qc_node_of(g, d->inputs[0]); /* joins two directions */
        if (!d || (d->op != QC_OP_Dequantize && d->op != QC_OP_DequantizeLinear)) {
            p->unknown++;
            continue;
        }
        const struct qc_pair_order order = qc_pair_order_of_rows(&g->values[d->inputs[0]].type.shape);
        prove_product(p, g, id, d->inputs[0], &order, qc_pair_limit(QC_U8, qc_levels_of(QC_U8, false).hi));
    }
}

static void prove_node(struct qc_pair_proof *p, const struct qc_graph *g, qc_id id)
{
    struct qc_node n = g->nodes[id];
    struct qc_pair_order order;
    if (qc_is_recurrent(n.op)) prove_recurrent(p, g, id);
    if (n.op == QC_OP_MatMulInteger) n.op = QC_OP_MatMul; /* the same weights at the same input */
    if (qc_pair_order_of(&order, g, &n)) prove_product(p, g, id, n.inputs[1], &order, limit_of_data(g, n.inputs[0]));
}

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
void qc_prove_pairs(struct qc_pair_proof *out, const struct qc_graph *g)
{
    *out = (struct qc_pair_proof){0};
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        prove_node(out, g, id);
        for (unsigned i = 0; i < n->attr_count; i++) {
            struct qc_pair_proof body;
            if (n->attrs[i].kind != QC_ATTR_GRAPH) continue;
            qc_prove_pairs(&body, n->attrs[i].graph);
            out->products += body.products;
            out->saturating += body.saturating;
            out->unknown += body.unknown;
        }
    }
}
