// SPDX-License-Identifier: Apache-2.0
#include "graph/core/uses.h"

#include "graph/core/graph.h"
#include "graph/types/tensor.h"

static void add_use(struct qc_use *use, size_t *next, qc_id v, qc_id node, unsigned input)
{
    if (v) use[next[v]++] = (struct qc_use){.node = node, .input = input};
}

bool qc_uses_of(struct qc_uses *out, const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    return qc_uses_of_first(out, g, g->node_count, a, st);
}

bool qc_uses_of_first(struct qc_uses *out, const struct qc_graph *g, size_t nodes, struct qc_arena *a,
                      struct qc_status *st)
{
    uint32_t *counts = qc_graph_uses(g, a, st);
    size_t *first = QC_NEW_ARRAY(a, size_t, g->value_count + 2, st);
    size_t *next = QC_NEW_ARRAY(a, size_t, g->value_count + 1, st);
    uint32_t *outputs = QC_NEW_ARRAY(a, uint32_t, g->value_count + 1, st);
    if (!counts || !first || !next || !outputs) return false;
    for (qc_id id = (qc_id)nodes + 1; id <= g->node_count; id++)
        for (unsigned i = 0; i < g->nodes[id].input_count; i++)
            if (g->nodes[id].inputs[i]) counts[g->nodes[id].inputs[i]]--;
    for (qc_id v = 1; v <= g->value_count; v++) {
        next[v] = first[v];
        first[v + 1] = first[v] + counts[v];
    }
    struct qc_use *use = QC_NEW_ARRAY(a, struct qc_use, first[g->value_count + 1], st);
    if (!use) return false;
    for (qc_id id = 1; id <= nodes; id++)
        for (unsigned i = 0; i < g->nodes[id].input_count; i++) add_use(use, next, g->nodes[id].inputs[i], id, i);
    for (size_t i = 0; i < g->output_count; i++) {
        add_use(use, next, g->outputs[i].value, 0, (unsigned)i);
        outputs[g->outputs[i].value]++;
    }
    *out = (struct qc_uses){.graph = g, .first = first, .use = use, .output_count = outputs};
    return true;
}

qc_id qc_only_reader(const struct qc_uses *u, qc_id v)
{
    const struct qc_use_list l = qc_all_uses(u, v);
    return l.count == 1 ? l.of[0].node : 0;
}

bool qc_stored_values_of(struct qc_stored_values *out, const struct qc_graph *g, struct qc_arena *a,
                         struct qc_status *st)
{
    size_t *first = QC_NEW_ARRAY(a, size_t, g->qparams_count + 2, st);
    size_t *next = QC_NEW_ARRAY(a, size_t, g->qparams_count + 1, st);
    qc_id *value = QC_NEW_ARRAY(a, qc_id, g->value_count, st);
    if (!first || !next || !value) return false;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (g->values[v].type.qparams) first[g->values[v].type.qparams + 1]++;
    for (qc_id s = 1; s <= g->qparams_count; s++) {
        next[s] = first[s];
        first[s + 1] += first[s];
    }
    for (qc_id v = 1; v <= g->value_count; v++)
        if (g->values[v].type.qparams) value[next[g->values[v].type.qparams]++] = v;
    *out = (struct qc_stored_values){.first = first, .value = value};
    return true;
}

qc_id qc_next_tied_table(const struct qc_graph *g, const struct qc_tensor *matrix, qc_id after)
{
    for (qc_id id = after + 1; matrix->shape.rank == 2 && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        const bool rows = n->op == QC_OP_Gather && !qc_attr_int(n, "axis", 0);
        const struct qc_tensor *table = rows ? qc_constant_of(g, n->inputs[0]) : NULL;
        if (table && (table == matrix || qc_tensor_is_transposed(table, matrix))) return id;
    }
    return 0;
}

/* Finds the one Concat that appends to v. Returns false if v, or a conversion of it, has another reader than that and
   Shape. */
static bool appended(const struct qc_node **joins, const struct qc_uses *u, qc_id v, unsigned conversions)
{
    const struct qc_graph *g = u->graph;
    const struct qc_use_list readers = qc_readers(u, v);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = &g->nodes[readers.of[i].node];
        if (n->op == QC_OP_Shape) continue;
        if (n->op == QC_OP_Cast || n->op == QC_OP_DequantizeLinear || n->op == QC_OP_Quantize ||
            n->op == QC_OP_Dequantize) {
            if (!conversions || !appended(joins, u, n->outputs, conversions - 1)) return false;
            continue;
        }
        if (n->op != QC_OP_Concat || readers.of[i].input != 0 || n->input_count != 2) return false;
        if (*joins && *joins != n) return false;
        *joins = n;
    }
    return true;
}

bool qc_cache_of(struct qc_cache *out, const struct qc_uses *u, qc_id input)
{
    const struct qc_type *t = &u->graph->values[input].type;
    const struct qc_dtype_info *info = qc_dtype_info(t->dtype);
    if ((!info->is_float && info->bits != 8) || t->shape.rank < 3) return false;
    const struct qc_node *n = NULL;
    if (!appended(&n, u, input, 4) || !n) return false;
    const int64_t axis = qc_attr_int(n, "axis", 0);
    *out = (struct qc_cache){.joins = n, .axis = (int)(axis < 0 ? axis + t->shape.rank : axis)};
    return out->axis >= 1 && out->axis < t->shape.rank && t->shape.dim[out->axis] < 0;
}

int qc_cache_heads(const struct qc_graph *g, const struct qc_cache *c)
{
    const struct qc_shape *s = &g->values[c->joins->outputs].type.shape;
    const int heads = 3 - c->axis; /* [batch, heads, length, size] or [batch, length, heads, size] */
    return s->rank == 4 && c->axis < 3 && s->dim[heads] > 0 ? heads : -1;
}
