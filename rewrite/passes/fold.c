// SPDX-License-Identifier: Apache-2.0
/* Fold: merges quantizers of equal parameters between which a value is converted, then applies the rules of
   requantize.rules. */
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/union_find.h"
#include "graph/core/rebuild.h"
#include "rewrite/passes/simulate.h"

static bool equal_parameters(const struct qc_qparams *a, const struct qc_qparams *b)
{
    if (a->kind != QC_QPARAMS_QUANTIZER || b->kind != QC_QPARAMS_QUANTIZER || a->state != QC_QPARAMS_BOUND ||
        b->state != QC_QPARAMS_BOUND)
        return false;
    if (a->dtype != b->dtype || a->restricted != b->restricted || a->bits != b->bits || a->block != b->block ||
        a->count != b->count || a->is_weight != b->is_weight)
        return false;
    return memcmp(a->scale, b->scale, a->count * sizeof *a->scale) == 0 &&
           memcmp(a->zero_point, b->zero_point, a->count * sizeof *a->zero_point) == 0;
}

bool qc_fold(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    QC_GRAPH_SCOPE *unified = NULL;
    QC_FREED qc_id *map = calloc(g->qparams_count + 1, sizeof *map);
    if (!map) return qc_fail_memory(st, (g->qparams_count + 1) * sizeof *map);
    bool any = false; /* two are equal; map[qparams]: the representative of equal ones */
    qc_union_start(map, g->qparams_count + 1);
    QC_EACH_NODE(n, g) {
        /* The qparams from which a quantize or requantize converts its value; 0: the value is real. */
        const struct qc_node *dq = n->op == QC_OP_Quantize ? qc_node_of(g, n->inputs[0]) : NULL;
        qc_id from = 0;
        if (n->op == QC_OP_Requantize) from = g->values[n->inputs[0]].type.qparams;
        if (dq && dq->op == QC_OP_Dequantize) from = g->values[dq->inputs[0]].type.qparams;
        const qc_id to = from ? g->values[n->outputs].type.qparams : 0;
        if (!to || !equal_parameters(&g->qparams_of[from], &g->qparams_of[to])) continue;
        any = qc_union_join(map, from, to) || any;
    }
    if (any) {
        if (!qc_rebuild_begin(&r, g, st)) return false;
        QC_EACH_NODE(n, g) {
            const struct qc_type *t = &g->values[n->outputs].type;
            const enum qc_affine_behaviour b = qc_node_affine(n);
            const bool sets_qparams = n->op == QC_OP_Quantize || n->op == QC_OP_Requantize || b == QC_AFFINE_MERGE ||
                                      b == QC_AFFINE_PRODUCT; /* of its result itself */
            if (!sets_qparams || !t->qparams) {
                qc_rebuild_node(&r, n->id, st);
                continue;
            }
            const qc_id *inputs = qc_rebuild_inputs(&r, n, st);
            const struct qc_qparams *q = &r.to->qparams_of[t->qparams];
            const qc_id mapped = q->kind == QC_QPARAMS_QUANTIZER ? qc_union_root(map, t->qparams)
                                                                 : qc_graph_add_product(r.to, qc_union_root(map, q->a),
                                                                                        qc_union_root(map, q->b), st);
            const struct qc_node_def with = {.inputs = inputs,
                                             .qparams = mapped,
                                             .axis = b == QC_AFFINE_PRODUCT ? 0 : t->axis};
            r.map[n->outputs] = qc_graph_add_like(r.to, g, n, &with, st);
        }
        if (!qc_rebuild_finish(&unified, &r, st)) return false;
    }
    return qc_rewrite(out, NULL, unified ? unified : g, rules, st);
}
