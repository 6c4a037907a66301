// SPDX-License-Identifier: Apache-2.0
#include "graph/core/pair_order.h"

#include "base/simd.h"
#include "graph/core/graph.h"
#include "graph/core/recurrent.h"

/* Returns whether the known zero points are all equal. */
static bool one_zero_point(const struct qc_graph *g, qc_id weights)
{
    const qc_id q = qc_value(g, weights)->type.qparams;
    const struct qc_qparams *p = q == QC_REAL ? NULL : &g->qparams_of[q];
    for (size_t c = 1; p && p->zero_point && c < p->count; c++)
        if (p->zero_point[c] != p->zero_point[0]) return false;
    return true;
}

bool qc_pair_order_of(struct qc_pair_order *out, const struct qc_graph *g, const struct qc_node *n)
{
    if (n->op != QC_OP_Conv && n->op != QC_OP_Gemm && n->op != QC_OP_MatMul) return false;
    const struct qc_shape *w = &qc_value(g, n->inputs[1])->type.shape;
    if (w->rank < (n->op == QC_OP_Conv ? 3 : 1)) return false;
    for (int i = 0; i < w->rank; i++)
        if (w->dim[i] < 1) return false;
    if (n->op == QC_OP_Conv) {
        int64_t positions = 1;
        for (int i = 2; i < w->rank; i++) positions *= w->dim[i];
        const int64_t groups = qc_attr_int(n, "group", 1), inputs = w->dim[1];
        if (groups > 1 && inputs == 1 && w->dim[0] == groups && one_zero_point(g, n->inputs[1])) return false;
        *out = (struct qc_pair_order){.channels = w->dim[0],
                                      .count = inputs * positions,
                                      .inner = w->dim[0],
                                      .channel_step = inputs * positions,
                                      .run = inputs,
                                      .run_step = 1,
                                      .step = positions};
        return true;
    }
    const bool turned = n->op == QC_OP_Gemm && qc_attr_int(n, "transB", 0);
    const int64_t last = w->rank > 1 ? w->dim[w->rank - 1] : 1, before = w->rank > 1 ? w->dim[w->rank - 2] : w->dim[0],
                  columns = turned ? before : last, rows = turned ? last : before;
    *out = (struct qc_pair_order){.channels = columns,
                                  .count = rows,
                                  .inner = columns,
                                  .outer_step = rows * columns,
                                  .channel_step = turned ? rows : 1,
                                  .run = rows,
                                  .step = turned ? 1 : columns};
    for (int i = 0; i + 2 < w->rank; i++) out->channels *= w->dim[i];
    return true;
}

struct qc_pair_order qc_pair_order_of_rows(const struct qc_shape *weight)
{
    const int64_t count = weight->dim[weight->rank - 1];
    int64_t rows = 1;
    for (int i = 0; i + 1 < weight->rank; i++) rows *= weight->dim[i];
    return (struct qc_pair_order){
        .channels = rows, .count = count, .inner = rows, .channel_step = count, .run = count, .step = 1};
}

int32_t qc_pair_limit(enum qc_dtype activation, int32_t highest)
{
    const int32_t most = activation == QC_I8 ? highest + 128 : activation == QC_U8 ? highest : 0;
    return most > 0 ? INT16_MAX / most : 0;
}

/* Returns the integer type of a value; QC_NONE for a real one. */
static enum qc_dtype stored_type(const struct qc_graph *g, qc_id v)
{
    const qc_id q = qc_value(g, v)->type.qparams;
    return q == QC_REAL ? QC_NONE : g->qparams_of[q].dtype;
}

struct readers {
    size_t nodes, outputs; /* nodes: a node that reads the value twice counts once */
    const struct qc_node *last;
};

static struct readers readers_of(const struct qc_uses *uses, qc_id v)
{
    const struct qc_use_list l = qc_readers(uses, v);
    struct readers r = {.outputs = uses->output_count[v]};
    for (size_t i = 0; i < l.count; i++)
        if (!i || l.of[i].node != l.of[i - 1].node) {
            r.nodes++;
            r.last = &uses->graph->nodes[l.of[i].node];
        }
    return r;
}

/* Returns whether v is between one QuantizeLinear and one DequantizeLinear in the file, whose int8 ONNX Runtime
   converts to uint8. */
static bool becomes_unsigned(const struct qc_uses *uses, qc_id v)
{
    const struct qc_node *made = qc_node_of(uses->graph, v);
    const struct readers r = readers_of(uses, v);
    if (!made || r.nodes != 1 || r.outputs) return false;
    /* Integers that come from an input of the file or go to an output of it pass through real numbers. */
    const struct qc_node *before = made->op == QC_OP_Quantize ? qc_node_of(uses->graph, made->inputs[0]) : NULL;
    const struct readers behind =
        r.last->op == QC_OP_Dequantize ? readers_of(uses, r.last->outputs) : (struct readers){0};
    return (!before || before->op != QC_OP_DequantizeLinear) &&
           (!behind.last || behind.last->op != QC_OP_QuantizeLinear);
}

/* Returns the value in which the accumulator is stored, after clamps; 0 if it is read in float or by several nodes. */
static qc_id result_of(const struct qc_uses *uses, qc_id accumulator)
{
    for (qc_id v = accumulator;;) {
        const struct readers r = readers_of(uses, v);
        if (r.nodes != 1 || r.outputs) return 0;
        if (r.last->op == QC_OP_Requantize) return r.last->outputs;
        if (r.last->op != QC_OP_Relu && r.last->op != QC_OP_Clip) return 0;
        v = r.last->outputs;
    }
}

bool qc_saturates_in_pairs(const struct qc_uses *uses, const struct qc_node *n)
{
    const struct qc_graph *g = uses->graph;
    struct qc_pair_order order;
    if (!qc_pair_order_of(&order, g, n) || stored_type(g, n->inputs[1]) != QC_I8) return false;
    const enum qc_dtype data = stored_type(g, n->inputs[0]);
    const qc_id result = result_of(uses, n->outputs);
    if (data != QC_U8 && data != QC_I8) return false;
    if (n->op == QC_OP_Conv && !result) return false;
    if (result && stored_type(g, result) != data) return false;
    if (data == QC_U8) return true;
    return !g->integer_operators && becomes_unsigned(uses, n->inputs[0]) && (!result || becomes_unsigned(uses, result));
}

/* Returns the largest sum of one sign of x[k] and y[k], n of them. */
QC_VECTOR(largest_sum, (int32_t * out, const int8_t *x, const int8_t *y, int64_t n), (out, x, y, n))
{
    int32_t most = 0;
    for (int64_t k = 0; k < n; k++) {
        const int32_t a = x[k], b = y[k], above = (a > 0 ? a : 0) + (b > 0 ? b : 0),
                      below = (a < 0 ? -a : 0) + (b < 0 ? -b : 0), larger = above > below ? above : below;
        most = larger > most ? larger : most;
    }
    *out = most;
}

/* Contiguous channels, as in the weight of a MatMul, go together. */
static bool pairs_fit(const struct qc_tensor *weights, const struct qc_pair_order *o, int32_t limit)
{
    const int8_t *x = weights->data;
    const int64_t together = o->channel_step == 1 ? o->inner : 1;
    for (int64_t channel = 0, n; channel < o->channels; channel += n) {
        const int64_t left = o->channels - channel, block = together - channel % together;
        n = left < block ? left : block;
        for (int64_t i = 0; i + 1 < o->count; i += 2) {
            int32_t most;
            const int8_t *a = x + qc_pair_order_at(o, channel, i), *b = x + qc_pair_order_at(o, channel, i + 1);
            if (n > 1)
                largest_sum(&most, a, b, n);
            else
                largest_sum_body(&most, a, b, 1);
            if (most > limit) return false;
        }
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

/* Recursion is bounded by QC_BODY_DEPTH_MAX. */
void qc_prove_pairs(struct qc_pair_proof *out, const struct qc_graph *g)
{
    *out = (struct qc_pair_proof){0};
    for (qc_id id = 1; id <= g->node_count; id++) {
        struct qc_node n = g->nodes[id];
        struct qc_pair_order order;
        if (qc_is_recurrent(n.op)) prove_recurrent(out, g, id);
        if (n.op == QC_OP_MatMulInteger) n.op = QC_OP_MatMul; /* the same weights at the same input */
        if (qc_pair_order_of(&order, g, &n))
            prove_product(out, g, id, n.inputs[1], &order, limit_of_data(g, n.inputs[0]));
        for (unsigned i = 0; i < n.attr_count; i++) {
            struct qc_pair_proof body;
            if (n.attrs[i].kind != QC_ATTR_GRAPH) continue;
            qc_prove_pairs(&body, n.attrs[i].graph);
            out->products += body.products;
            out->saturating += body.saturating;
            out->unknown += body.unknown;
        }
    }
}
