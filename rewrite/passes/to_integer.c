// SPDX-License-Identifier: Apache-2.0

#include "graph/core/parameters.h"
#include "graph/core/rebuild.h"
#include "graph/types/tensor.h"
#include "rewrite/passes/simulate.h"

struct storing {
    qc_eval_fn *eval;
    bool weights; /* only weights, in a simulated graph */
    enum qc_constant_forms forms;
};

/* Returns the Quantize of a real constant into bound qparams that makes a value; NULL: there is none. */
static const struct qc_node *quantize_of(const struct qc_graph *g, qc_id v, bool weights)
{
    const struct qc_qparams *q = v ? qc_graph_parameters(g, v) : NULL;
    if (!q || !qc_node_of(g, v) || !qc_quantized_constant(g, v)) return NULL;
    return !weights || (q->kind == QC_QPARAMS_QUANTIZER && q->is_weight) ? qc_node_of(g, v) : NULL;
}

/* Makes the graph with stored constants. */
static bool store(struct qc_graph **out, const struct qc_graph *g, const struct storing *how, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    QC_ARENA_SCOPE *a = qc_arena_new();
    bool *read = QC_NEW_ARRAY(a, bool, g->value_count + 1, st),
         *live = QC_NEW_ARRAY(a, bool, g->node_count + 1, st); /* the outputs need the node */
    if (!read || !live || !qc_rebuild_begin(&r, g, st)) return false;
    for (size_t i = 0; i < g->output_count; i++) read[g->outputs[i].value] = true;
    QC_EACH_NODE_BACK(n, g) {
        for (unsigned k = 0; k < n->output_count; k++) live[n->id] |= read[n->outputs + k];
        for (unsigned i = 0; live[n->id] && i < n->input_count; i++) read[n->inputs[i]] = true;
    }
    if (!how->weights) r.to->simulated = false;
    QC_EACH_NODE(n, g) {
        if (!live[n->id] || quantize_of(g, n->outputs, how->weights)) continue;
        for (unsigned i = 0; i < n->input_count; i++) { /* store the constants that it reads, in this order */
            const qc_id v = n->inputs[i];
            const struct qc_node *q = v && !r.map[v] ? quantize_of(g, v, how->weights) : NULL;
            if (!q && v && qc_quantized_constant(g, v) == v) qc_rebuild_value(&r, v, st);
            if (!q || st->code != QC_OK) continue;
            const struct qc_value *value = &g->values[v];
            const char *name = value->name ? value->name : g->values[q->inputs[0]].name;
            struct qc_tensor *t = NULL;
            if (how->eval(&t, g, value->node, st) && (!g->spills || qc_tensor_spill(t, st)) &&
                (how->forms == QC_FORMS_NOT_KEPT || qc_tensor_keep_forms(t, st)))
                r.map[v] = qc_graph_add_affine_constant(r.to, name, t, value->type.qparams, value->type.axis, st);
            qc_tensor_unref(t);
        }
        qc_rebuild_node(&r, n->id, st);
    }
    return qc_rebuild_finish(out, &r, st);
}

bool qc_to_integer(struct qc_graph **out, const struct qc_graph *g, qc_eval_fn *eval, struct qc_status *st)
{
    return store(out, g, &(struct storing){.eval = eval, .forms = QC_FORMS_NOT_KEPT}, st);
}

bool qc_store_weights(struct qc_graph **out, const struct qc_graph *g, enum qc_constant_forms forms, qc_eval_fn *eval,
                      struct qc_status *st)
{
    return store(out, g, &(struct storing){.eval = eval, .weights = true, .forms = forms}, st);
}
