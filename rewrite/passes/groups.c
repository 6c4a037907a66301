// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/groups.h"

#include "graph/core/function.h"

struct users {
    const struct qc_graph *g;
    uint32_t *uses;
    qc_id *first; /* [value_count + 1]: the first node that uses the value */
};

static bool is_unary(const struct qc_node *n)
{
    return qc_op_info(n->op)->unary || n->op == QC_OP_Gelu || n->op == QC_OP_Table;
}

/* An op that works element by element on one value: it could be computed as the accumulator is written. */
static bool could_join(const struct qc_node *n)
{
    return is_unary(n) || n->op == QC_OP_Relu || n->op == QC_OP_Clip || n->op == QC_OP_Abs || n->op == QC_OP_Neg;
}

static bool joins(const struct qc_graph *g, const struct qc_node *n)
{
    if (g->values[n->outputs].type.qparams == QC_REAL) return false;
    return n->op == QC_OP_Requantize || qc_node_affine(n) == QC_AFFINE_BOUND || is_unary(n);
}

/* Accumulator -> real -> function -> stored, each used once: one rounding. */
static bool take_function(struct qc_group_info *group, const struct users *u, qc_id dequantize)
{
    const struct qc_graph *g = u->g;
    const qc_id real = g->nodes[dequantize].outputs, function = u->first[real];
    if (u->uses[real] != 1 || !function || !could_join(&g->nodes[function]) || group->count + 3 > QC_GROUP_NODES)
        return false;
    const qc_id result = g->nodes[function].outputs, store = u->first[result];
    if (u->uses[result] != 1 || !store || g->nodes[store].op != QC_OP_Quantize) return false;
    group->nodes[group->count++] = dequantize;
    group->nodes[group->count++] = function;
    group->nodes[group->count++] = store;
    group->result = g->nodes[store].outputs;
    return true;
}

static void follow(struct qc_group_info *group, const struct users *u)
{
    const struct qc_graph *g = u->g;
    for (;;) {
        const struct qc_type *t = &g->values[group->result].type;
        bool wide = t->qparams && g->qparams_of[t->qparams].kind == QC_QPARAMS_PRODUCT;
        qc_id next = u->first[group->result];
        const struct qc_node *n = next ? &g->nodes[next] : NULL;
        if (wide && u->uses[group->result] != 1) {
            group->how = QC_GROUP_SEVERAL_USERS;
            group->breaks_at = next;
            return;
        }
        if (u->uses[group->result] != 1 || !n) return;
        if (n->op == QC_OP_Dequantize && wide && take_function(group, u, next)) continue;
        if (n->op == QC_OP_Dequantize) {
            qc_id reader = u->first[n->outputs];
            bool activation = reader && u->uses[n->outputs] == 1 && could_join(&g->nodes[reader]);
            if (!wide && !activation) return;
            group->how = activation ? QC_GROUP_FLOAT_OP : QC_GROUP_WIDE;
            group->breaks_at = reader;
            return;
        }
        if (!joins(g, n) || group->count == QC_GROUP_NODES) return;
        group->nodes[group->count++] = next;
        group->result = n->outputs;
    }
}

bool qc_groups_find(const struct qc_group_info **out, size_t *count, const struct qc_graph *g, struct qc_arena *a,
                    struct qc_status *st)
{
    struct users u = {.g = g, .uses = qc_graph_uses(g, a, st), .first = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st)};
    struct qc_group_info *list = QC_NEW_ARRAY(a, struct qc_group_info, g->node_count, st);
    if (!u.uses || !u.first || !list) return false;
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--)
        for (unsigned i = 0; i < g->nodes[id].input_count; i++) u.first[g->nodes[id].inputs[i]] = id;
    *count = 0;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT) continue;
        struct qc_group_info *group = &list[(*count)++];
        *group = (struct qc_group_info){.head = id, .result = n->outputs};
        if (g->values[n->outputs].type.qparams != QC_REAL)
            follow(group, &u);
        else
            group->how = QC_GROUP_FLOAT;
    }
    *out = list;
    return true;
}

const char *qc_group_break_text(enum qc_group_break how)
{
    switch (how) {
    case QC_GROUP_WHOLE: return "is one piece";
    case QC_GROUP_FLOAT_OP: return "a float op follows";
    case QC_GROUP_WIDE: return "the accumulator is read in float: nothing quantized uses the result";
    case QC_GROUP_SEVERAL_USERS: return "several ops read the accumulator";
    case QC_GROUP_FLOAT: return "is a float op";
    }
    return "";
}
