// SPDX-License-Identifier: Apache-2.0
#include <assert.h>

#include "calib/weights/round_weights_parts.h"
#include "graph/core/recurrent.h"

/* Returns the outputs of a group that can be compensated. The third gate of a GRU multiplies R by the reset state,
   which is no output of the operator. */
static size_t fitted(const struct qc_node *n, const struct qc_second_moments_layer *m,
                     enum qc_second_moments_recurrent which)
{
    const bool reset = n->op == QC_OP_GRU && which == QC_MOMENTS_STATE && !qc_attr_int(n, "linear_before_reset", 0);
    const size_t per = m->outputs / m->groups;
    return reset ? per / 3 * 2 : per;
}

bool qc_round_weights_recurrent(struct qc_round_weights_layer *l, const struct qc_uses *u, qc_id node,
                                enum qc_second_moments_recurrent which, const struct qc_second_moments *moments,
                                struct qc_rounded_weights *result)
{
    const struct qc_graph *g = u->graph;
    const struct qc_node *n = &g->nodes[node], *weight = qc_second_moments_recurrent_weight(g, n, which);
    const struct qc_second_moments_layer *m = qc_second_moments_of_recurrent(moments, node, which);
    if (!weight || !m) return false;
    *l = (struct qc_round_weights_layer){.g = g,
                                         .uses = u,
                                         .node = node,
                                         .moments = m,
                                         .at = which == QC_MOMENTS_INPUT ? QC_RECURRENT_W : QC_RECURRENT_R,
                                         .recurrent = true,
                                         .fitted = fitted(n, m, which),
                                         .weight = qc_constant_of(g, weight->inputs[0]),
                                         .qparams = &g->qparams_of[g->values[weight->outputs].type.qparams],
                                         .result = result};
    *result =
        (struct qc_rounded_weights){.quantizer = g->values[weight->outputs].type.qparams, .name = l->qparams->name};
    return true;
}

/* Makes the new weight as the node reads it: dequantized, in the operator's shape. */
static qc_id new_weight(struct qc_rebuild *b, const struct qc_round_weights_layer *l, struct qc_status *st)
{
    const struct qc_graph *g = l->g;
    const struct qc_node *n = &g->nodes[l->node], *shape = qc_node_of(g, n->inputs[l->at]);
    const struct qc_node *dequantize = shape->op == QC_OP_Reshape ? qc_node_of(g, shape->inputs[0]) : shape;
    const struct qc_node *quantize = qc_node_of(g, dequantize->inputs[0]);
    const struct qc_type *type = &g->values[quantize->outputs].type;
    const qc_id v = qc_graph_add_constant(b->to, g->values[quantize->inputs[0]].name, l->rounded, st);
    const struct qc_node_def q = {.inputs = &v, .qparams = type->qparams, .axis = type->axis};
    const qc_id stored = v ? qc_graph_add_like(b->to, g, quantize, &q, st) : 0;
    const struct qc_node_def d = {.inputs = &stored};
    const qc_id real = stored ? qc_graph_add_like(b->to, g, dequantize, &d, st) : 0;
    if (!real || shape == dequantize) return real;
    const qc_id inputs[] = {real, qc_rebuild_value(b, shape->inputs[1], st)};
    const struct qc_node_def r = {.inputs = inputs};
    return inputs[1] ? qc_graph_add_like(b->to, g, shape, &r, st) : 0;
}

bool qc_round_weights_copy_recurrent(struct qc_rebuild *b, const struct qc_graph *g, qc_id node,
                                     const struct qc_round_weights_layer *const of[QC_MOMENTS_RECURRENT],
                                     struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[node];
    qc_id inputs[QC_RECURRENT_INPUTS];
    assert(n->input_count <= QC_RECURRENT_INPUTS);
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_round_weights_layer *l = NULL;
        for (int k = 0; k < QC_MOMENTS_RECURRENT; k++)
            if (of[k] && of[k]->at == i) l = of[k];
        inputs[i] = !n->inputs[i] ? QC_ABSENT : l ? new_weight(b, l, st) : qc_rebuild_value(b, n->inputs[i], st);
        if (n->inputs[i] && !inputs[i]) return false;
    }
    const struct qc_node_def with = {.inputs = inputs};
    const qc_id first = qc_graph_add_like(b->to, g, n, &with, st);
    for (unsigned k = 0; first && k < n->output_count; k++) b->map[n->outputs + k] = first + k;
    return first != 0;
}
