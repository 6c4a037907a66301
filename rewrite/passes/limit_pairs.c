// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/limit_pairs.h"

#include "graph/core/pair_order.h"
#include "graph/core/recurrent.h"

enum { REDUCED_BITS = 7 };

/* The quantizer of a weight that a node reads, as integers or as the real numbers behind them; 0: none. Between those
   and an LSTM of two directions is a Reshape, which keeps the rows. */
static qc_id weight_quantizer(const struct qc_graph *g, qc_id value)
{
    const struct qc_node *n = qc_node_of(g, value);
    if (n && n->op == QC_OP_Reshape) n = qc_node_of(g, value = n->inputs[0]);
    if (n && n->op == QC_OP_Dequantize) value = n->inputs[0];
    const qc_id q = g->values[value].type.qparams;
    return q && g->qparams_of[q].kind == QC_QPARAMS_QUANTIZER && g->qparams_of[q].is_weight ? q : 0;
}

static void limit(struct qc_graph *g, qc_id quantizer, int32_t sum, enum qc_overflow_fix fix)
{
    struct qc_qparams *q = &g->qparams_of[quantizer];
    if (!quantizer || !sum || q->dtype != QC_I8 || q->symmetry != QC_SYMMETRIC || q->given || q->block ||
        2 * -qc_qparams_levels(q).lo <= sum)
        return;
    if (fix == QC_OVERFLOW_FIX_REDUCE_RANGE)
        q->bits = REDUCED_BITS;
    else if (!q->pair_limit || sum < q->pair_limit)
        q->pair_limit = sum;
}

/* What the activations of a product allow; 0: no kernel of integers computes it. */
static int32_t limit_of_data(const struct qc_graph *g, qc_id value, bool dynamic)
{
    const qc_id q = g->values[value].type.qparams;
    if (!q) return dynamic ? qc_pair_limit(QC_U8, qc_levels_of(QC_U8, false).hi) : 0;
    return qc_pair_limit(g->qparams_of[q].dtype, qc_qparams_levels(&g->qparams_of[q]).hi);
}

static bool any_dynamic(const struct qc_partition_options *o)
{
    bool dynamic = o->dynamic;
    for (size_t i = 0; i < o->activation_type_count; i++) dynamic = dynamic || o->activation_types[i].dynamic;
    return dynamic;
}

void qc_limit_pairs(struct qc_graph *g, const struct qc_partition_options *o)
{
    const bool dynamic = any_dynamic(o);
    struct qc_pair_order order;
    if (o->overflow_fix == QC_OVERFLOW_FIX_OFF) return;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (qc_pair_order_of(&order, g, n))
            limit(g, weight_quantizer(g, n->inputs[1]), limit_of_data(g, n->inputs[0], dynamic), o->overflow_fix);
        if (!qc_is_recurrent(n->op) || !dynamic || !o->dynamic_recurrent) continue;
        for (unsigned i = QC_RECURRENT_W; i <= QC_RECURRENT_R; i++)
            limit(g, weight_quantizer(g, n->inputs[i]), limit_of_data(g, n->inputs[0], true), o->overflow_fix);
    }
}
