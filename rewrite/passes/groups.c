// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/groups.h"

#include "graph/core/uses.h"

static bool is_unary(const struct qc_node *n)
{
    return qc_op_info(n->op)->unary || n->op == QC_OP_Gelu || n->op == QC_OP_Table;
}

/* Returns true for an op that works element by element on one value, so that it could be fused with the accumulator. */
static bool could_join(const struct qc_node *n)
{
    return is_unary(n) || n->op == QC_OP_Relu || n->op == QC_OP_Clip || n->op == QC_OP_Abs || n->op == QC_OP_Neg;
}

/* Accumulator -> real -> function -> stored, each with one reader: rounded once. */
static bool take_function(struct qc_group_info *group, const struct qc_uses *u, qc_id dequantize)
{
    const struct qc_graph *g = u->graph;
    const qc_id function = qc_only_reader(u, g->nodes[dequantize].outputs);
    if (!function || !could_join(&g->nodes[function]) || group->count + 3 > QC_GROUP_NODES) return false;
    const qc_id store = qc_only_reader(u, g->nodes[function].outputs);
    if (!store || g->nodes[store].op != QC_OP_Quantize) return false;
    group->nodes[group->count++] = dequantize;
    group->nodes[group->count++] = function;
    group->nodes[group->count++] = store;
    group->result = g->nodes[store].outputs;
    return true;
}

static void follow(struct qc_group_info *group, const struct qc_uses *u)
{
    const struct qc_graph *g = u->graph;
    for (;;) {
        const struct qc_type *t = &g->values[group->result].type;
        bool wide = t->qparams && g->qparams_of[t->qparams].kind == QC_QPARAMS_PRODUCT;
        const struct qc_use_list uses = qc_all_uses(u, group->result);
        const qc_id next = uses.count ? uses.of[0].node : 0;
        if (wide && uses.count != 1) {
            group->how = QC_GROUP_SEVERAL_USERS;
            group->breaks_at = next;
            return;
        }
        if (uses.count != 1 || !next) return;
        const struct qc_node *n = &g->nodes[next];
        if (n->op == QC_OP_Dequantize && wide && take_function(group, u, next)) continue;
        if (n->op == QC_OP_Dequantize) {
            const struct qc_use_list readers = qc_all_uses(u, n->outputs);
            const qc_id reader = readers.count ? readers.of[0].node : 0;
            const bool activation = reader && readers.count == 1 && could_join(&g->nodes[reader]);
            if (!wide && !activation) return;
            group->how = activation ? QC_GROUP_FLOAT_OP : QC_GROUP_WIDE;
            group->breaks_at = reader;
            return;
        }
        if (g->values[n->outputs].type.qparams == QC_REAL || group->count == QC_GROUP_NODES ||
            (n->op != QC_OP_Requantize && qc_node_affine(n) != QC_AFFINE_BOUND && !is_unary(n)))
            return;
        group->nodes[group->count++] = next;
        group->result = n->outputs;
    }
}

bool qc_groups_find(const struct qc_group_info **out, size_t *count, const struct qc_graph *g, struct qc_arena *a,
                    struct qc_status *st)
{
    struct qc_uses u;
    struct qc_group_info *list = QC_NEW_ARRAY(a, struct qc_group_info, g->node_count, st);
    if (!list || !qc_uses_of(&u, g, a, st)) return false;
    *count = 0;
    QC_EACH_NODE(n, g) {
        if (qc_op_info(n->op)->affine != QC_AFFINE_PRODUCT) continue;
        struct qc_group_info *group = &list[(*count)++];
        *group = (struct qc_group_info){.head = n->id, .result = n->outputs};
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
