// SPDX-License-Identifier: Apache-2.0
#include "calib/trials/layer_bias.h"

#include <math.h>
#include <string.h>

#include "calib/weights/round_weights_parts.h"
#include "graph/core/rebuild.h"

/* Largest magnitude of a bias in steps of its accumulator: half of int32. */
static const double BIAS_MOST = 0x1p30;

bool qc_is_conversion(enum qc_op op)
{
    return op == QC_OP_Quantize || op == QC_OP_Dequantize || op == QC_OP_Requantize;
}

qc_id qc_source_of(const struct qc_graph *g, qc_id v)
{
    for (const struct qc_node *n; (n = qc_node_of(g, v)) && qc_is_conversion(n->op);) v = n->inputs[0];
    return v;
}

/* Returns the constant that an input of a node is dequantized from of a node, float32 and without other readers; 0:
 * none. */
static qc_id own_constant(const struct qc_uses *u, qc_id v)
{
    const struct qc_graph *g = u->graph;
    for (const struct qc_node *n; qc_only_reader(u, v) && (n = qc_node_of(g, v)) && qc_is_conversion(n->op);)
        v = n->inputs[0];
    const struct qc_tensor *t = qc_only_reader(u, v) ? qc_constant_of(g, v) : NULL;
    return t && t->dtype == QC_F32 ? v : 0;
}

bool qc_layer_bias_find(struct qc_layer_bias *out, const struct qc_uses *u, qc_id id)
{
    const struct qc_graph *g = u->graph;
    const struct qc_node *n = &g->nodes[id], *weight = qc_second_moments_weight(g, n);
    const qc_id behind = n->op == QC_OP_MatMul ? qc_bias_after_matmul(u, id, false) : 0;
    if (!weight || g->qparams_of[g->values[weight->outputs].type.qparams].given) return false;
    *out = (struct qc_layer_bias){.layer = id, .own = n->outputs};
    if (behind) {
        const struct qc_node *add = &g->nodes[behind];
        const qc_id first = qc_source_of(g, add->inputs[0]);
        out->bias = own_constant(u, add->inputs[qc_constant_of(g, first) ? 0 : 1]);
        out->own = add->outputs;
    } else if (n->op != QC_OP_MatMul && n->input_count > 2 && n->inputs[2]) {
        out->bias = own_constant(u, n->inputs[2]);
    }
    return out->bias != 0;
}

int qc_layer_channel_axis(const struct qc_graph *g, qc_id id)
{
    const struct qc_node *n = &g->nodes[id];
    const bool window = n->op == QC_OP_Conv || n->op == QC_OP_ConvTranspose;
    return window ? 1 : g->values[n->outputs].type.shape.rank - 1;
}

static bool new_bias(bool *changed, struct qc_rebuild *b, const struct qc_graph *g, const struct qc_bias_shift *s,
                     struct qc_status *st)
{
    const qc_id bias = s->of.bias;
    const struct qc_tensor *old = qc_constant_of(g, bias);
    const struct qc_qparams *product = qc_graph_parameters(g, g->nodes[s->of.layer].outputs);
    struct qc_tensor *t = qc_tensor_new(QC_F32, &old->shape, st);
    if (!t) return false;
    for (size_t o = 0; o < old->count; o++) {
        const float was = ((const float *)old->data)[o];
        const double x = (double)was + s->shift[o],
                     most = product ? BIAS_MOST * (double)product->scale[product->count > 1 ? o : 0] : (double)INFINITY;
        ((float *)t->data)[o] = fabs(x) < most ? (float)x : was;
    }
    *changed = memcmp(t->data, old->data, old->count * sizeof(float)) != 0;
    if (*changed) b->map[bias] = qc_graph_add_constant(b->to, g->values[bias].name, t, st);
    qc_tensor_unref(t);
    return !*changed || b->map[bias];
}

bool qc_shift_biases(struct qc_graph **out, size_t *changed, const struct qc_graph *g,
                     const struct qc_bias_shift *shifts, size_t count, struct qc_status *st)
{
    struct qc_rebuild b;
    *changed = 0;
    if (!qc_rebuild_begin(&b, g, st)) return false;
    bool ok = true;
    for (size_t i = 0; ok && i < count; i++) {
        bool other = false;
        ok = new_bias(&other, &b, g, &shifts[i], st);
        *changed += other;
    }
    for (qc_id id = 1; ok && id <= g->node_count; id++) ok = qc_rebuild_node(&b, id, st) != 0;
    ok = ok && qc_rebuild_finish(out, &b, st);
    qc_rebuild_free(&b);
    return ok;
}
