// SPDX-License-Identifier: Apache-2.0
/* RNN, GRU and LSTM multiply W with each step's input, and R with the state of the previous step. The states of all
   steps are the operator's first output, and R uses their moments, for each direction separately. The last state, which
   no step reads, stands in for the first. */
#include "calib/moments/moments_parts.h"
#include "graph/core/graph.h"
#include "graph/core/recurrent.h"

const struct qc_node *qc_second_moments_recurrent_weight(const struct qc_graph *g, const struct qc_node *n,
                                                         enum qc_second_moments_recurrent which)
{
    const unsigned input = which == QC_MOMENTS_INPUT ? QC_RECURRENT_W : QC_RECURRENT_R;
    const struct qc_node *q = qc_is_recurrent(n->op) && input < n->input_count ? qc_node_of(g, n->inputs[input]) : NULL;
    if (q && q->op == QC_OP_Reshape) q = qc_node_of(g, q->inputs[0]);
    if (q && q->op == QC_OP_Dequantize) q = qc_node_of(g, q->inputs[0]);
    if (!q || q->op != QC_OP_Quantize || !qc_constant_of(g, q->inputs[0])) return NULL;
    return g->qparams_of[g->values[q->outputs].type.qparams].is_weight ? q : NULL;
}

/* Returns X before it is quantized. */
static qc_id real_input(const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_node *d = qc_node_of(g, n->inputs[QC_RECURRENT_X]),
                         *q = d && d->op == QC_OP_Dequantize ? qc_node_of(g, d->inputs[0]) : NULL;
    return q && q->op == QC_OP_Quantize ? q->inputs[0] : n->inputs[QC_RECURRENT_X];
}

static const struct qc_tensor *weight_of(const struct qc_graph *g, const struct qc_node *n,
                                         enum qc_second_moments_recurrent which, enum qc_second_moments_layers layers)
{
    const struct qc_node *q = qc_second_moments_recurrent_weight(g, n, which);
    const struct qc_tensor *t =
        q ? qc_constant_of(g, q->inputs[0])
        : layers == QC_MOMENTS_ALL
            ? qc_constant_of(g, n->inputs[which == QC_MOMENTS_INPUT ? QC_RECURRENT_W : QC_RECURRENT_R])
            : NULL;
    return t && t->dtype == QC_F32 && t->count ? t : NULL;
}

static bool add(struct qc_second_moments *m, const struct qc_graph *g, qc_id id, const struct qc_recurrent *r,
                enum qc_second_moments_recurrent which, size_t block, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[id];
    struct qc_second_moments_layer *l = QC_NEW_ARRAY(m->arena, struct qc_second_moments_layer, 1, st);
    if (!l) return false;
    const size_t ways = (size_t)r->directions;
    const bool states = which == QC_MOMENTS_STATE;
    l->value = states ? n->outputs : real_input(g, n);
    l->groups = states ? ways : 1;
    l->channels = states ? ways * (size_t)r->hidden : (size_t)r->input;
    l->outputs = ways * (size_t)r->gates * (size_t)r->hidden;
    l->taps = 1;
    l->geometry = states ? "states" : "rows";
    l->direction_axis = !states ? 0 : r->batchwise ? 2 : 1;
    l->recurrent = true;
    l->few_levels = qc_second_moments_few_levels(g, qc_second_moments_recurrent_weight(g, n, which));
    if (g->values[l->value].type.dtype != QC_F32 || qc_constant_of(g, l->value)) return true;
    const char *name = qc_value_name(g, l->value, m->arena, st);
    if (!name || !(l->name = qc_arena_strdup(m->arena, name, st))) return false;
    return qc_second_moments_put(&m->of_recurrent[which][id], m, l, block, st);
}

bool qc_second_moments_add_recurrent(struct qc_second_moments *m, const struct qc_graph *g, qc_id id,
                                     enum qc_second_moments_layers layers, size_t block, struct qc_status *st)
{
    const struct qc_node *n = &g->nodes[id];
    struct qc_status unknown = QC_STATUS_INIT;
    struct qc_recurrent r;
    if (!qc_recurrent_of(&r, g, n, &unknown) || r.input < 1 || r.hidden < 1) return true;
    const size_t rows = (size_t)r.directions * (size_t)r.gates * (size_t)r.hidden;
    for (int k = 0; k < QC_MOMENTS_RECURRENT; k++) {
        const enum qc_second_moments_recurrent which = (enum qc_second_moments_recurrent)k;
        const struct qc_tensor *w = weight_of(g, n, which, layers);
        const int64_t columns = which == QC_MOMENTS_STATE ? r.hidden : r.input;
        if (!w || w->count % rows || w->count / rows != (size_t)columns) continue;
        if (!add(m, g, id, &r, which, block, st)) return false;
    }
    return true;
}

struct qc_second_moments_layer *qc_second_moments_of_recurrent(const struct qc_second_moments *m, qc_id node,
                                                               enum qc_second_moments_recurrent which)
{
    const size_t at = m->of_recurrent[which][node];
    return at ? m->layers[at - 1] : NULL;
}
