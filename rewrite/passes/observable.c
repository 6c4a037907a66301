// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/observable.h"

#include "rewrite/passes/joins.h"

static void mark_ops(bool *named, const struct qc_expr *e)
{
    for (unsigned i = 0; e->kind == QC_EXPR_OP && i < e->op_count; i++) named[e->ops[i]] = true;
    for (unsigned i = 0; i < e->arg_count; i++)
        if (e->args[i]) mark_ops(named, e->args[i]);
}

static bool is_data(const struct qc_graph *g, qc_id v)
{
    return v && g->values[v].type.dtype == QC_F32;
}

/* Marks values of a node that another value of their class covers if the node is in no match. apart: the inputs of a
   join may have classes of their own. */
static void hide(bool *hidden, const struct qc_graph *g, const struct qc_rules *rules, const struct qc_node *n,
                 bool apart, const uint32_t *uses)
{
    enum qc_affine_behaviour b = qc_rules_behaviour(rules, g, n);
    if (!is_data(g, n->outputs) || !is_data(g, n->inputs[0])) return;
    if (b == QC_AFFINE_KEEP && n->op != QC_OP_Pad) /* a Pad may add another number */
        for (unsigned k = 0; k < n->output_count; k++) hidden[n->outputs + k] = true;
    unsigned covered = apart ? 0 : b == QC_AFFINE_JOIN ? n->input_count : b == QC_AFFINE_BOUND ? 1 : 0;
    for (unsigned i = 0; i < covered; i++)
        if (is_data(g, n->inputs[i]) && uses[n->inputs[i]] == 1) hidden[n->inputs[i]] = true;
}

bool qc_observable_values(size_t *count, qc_id **values, const struct qc_graph *g, const struct qc_rules *rules,
                          struct qc_arena *a, struct qc_status *st)
{
    bool *named = QC_NEW_ARRAY(a, bool, QC_OP_COUNT, st), *hidden = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    uint32_t *uses = qc_graph_uses(g, a, st);
    *values = QC_NEW_ARRAY(a, qc_id, g->value_count, st);
    *count = 0;
    const bool *apart = qc_joins_apart(g, rules, NULL, false, a, st);
    if (!named || !hidden || !uses || !*values || !apart) return false;
    for (size_t i = 0; i < rules->count; i++)
        if (rules->rules[i].kind == QC_RULE_PATTERN) mark_ops(named, rules->rules[i].match);
    for (qc_id id = 1; id <= g->node_count; id++)
        if (!named[g->nodes[id].op] && g->nodes[id].input_count) hide(hidden, g, rules, &g->nodes[id], apart[id], uses);
    for (qc_id v = 1; v <= g->value_count; v++)
        if (is_data(g, v) && g->values[v].kind != QC_VALUE_CONSTANT && g->values[v].name && !hidden[v])
            (*values)[(*count)++] = v;
    return true;
}
