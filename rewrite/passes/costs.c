// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/costs.h"

#include "graph/core/uses.h"

/* Weights with fewer elements stay in float: a scale and a zero point take as much memory. */
enum { SMALL_WEIGHT = 64 };

static bool are_for(const struct qc_partition_options *o)
{
    const struct qc_dtype_info *weight = qc_dtype_info(o->weight.dtype),
                               *activation = qc_dtype_info(o->activation.dtype);
    return o->prefer != QC_PREFER_INTEGERS && !o->only_count && !o->weight_block && !o->dynamic &&
           o->activation.dtype != QC_NONE && activation->bits == 8 && o->weight.dtype != QC_NONE && weight->bits == 8;
}

static bool is_named_by(const struct qc_type_choice *choices, size_t count, const struct qc_partition_options *o,
                        const struct qc_graph *g, const struct qc_node *n)
{
    for (size_t i = 0; i < count; i++)
        if (qc_node_fits(choices[i].glob, o, g, n)) return true;
    return false;
}

static bool has_weights(const struct qc_graph *g, const struct qc_node *n)
{
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *t = n->inputs[i] ? qc_constant_of(g, n->inputs[i]) : NULL;
        const bool computed = t && t->made_from && t->made_from < t->count; /* the file may have its nodes */
        if (t && t->dtype == QC_F32 && t->count > SMALL_WEIGHT && !computed) return true;
    }
    return false;
}

/* The rules compare kernels on integers with those on floats, and products of 8-bit floats have neither. */
static bool multiplies_small_floats(const struct qc_partition_options *o, const struct qc_node *n)
{
    return qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT &&
           (qc_dtype_info(o->weight.dtype)->is_float || qc_dtype_info(o->activation.dtype)->is_float);
}

/* Returns true if options keep the node in integers, whatever it costs. */
static bool is_fixed(const struct qc_partition_options *o, const struct qc_graph *g, const struct qc_node *n)
{
    return (o->prefer == QC_PREFER_SIZE && has_weights(g, n)) || multiplies_small_floats(o, n) ||
           is_named_by(o->activation_types, o->activation_type_count, o, g, n) ||
           is_named_by(o->weight_types, o->weight_type_count, o, g, n);
}

bool qc_costs_find_fixed(const bool **out, const struct qc_partition *p, struct qc_status *st)
{
    *out = NULL;
    if (!are_for(&p->options) || (p->options.given && p->options.given->count)) return true;
    bool *fixed = QC_NEW_ARRAY(p->arena, bool, p->graph->node_count + 1, st);
    if (!fixed) return false;
    for (qc_id id = 1; id <= p->graph->node_count; id++)
        for (unsigned i = 0; p->matches.at[id] && i < p->matches.at[id]->node_count; i++)
            fixed[id] = fixed[id] || is_fixed(&p->options, p->graph, &p->graph->nodes[p->matches.at[id]->nodes[i]]);
    *out = fixed;
    return true;
}

static bool is_due(void *user, const struct qc_match *m)
{
    return m->rule->where != QC_COST_OUTPUTS || !qc_readers(user, m->root).count;
}

/* Returns true if something reads the value, and only nodes with a reason or clamps that only such nodes read. */
static bool only_floats_read(const char *const *reason, const struct qc_uses *uses, qc_id v)
{
    const struct qc_use_list readers = qc_all_uses(uses, v);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *n = readers.of[i].node ? &uses->graph->nodes[readers.of[i].node] : NULL;
        if (!n || (!reason[readers.of[i].node] &&
                   !((n->op == QC_OP_Relu || n->op == QC_OP_Clip) && only_floats_read(reason, uses, n->outputs))))
            return false;
    }
    return readers.count > 0;
}

/* Returns true if a product with a constant weight has no reason to stay in float. */
static bool leaves_products(const char *const *reason, const struct qc_graph *g, const struct qc_partition_options *o)
{
    QC_EACH_NODE(n, g)
        if (qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT && qc_constant_of(g, n->inputs[1]) && !reason[n->id] &&
            !qc_partition_skips(o, g, n, NULL))
            return true;
    return false;
}

bool qc_costs_find(const char ***reason, const struct qc_graph *g, const struct qc_rules *rules,
                   const struct qc_partition_options *o, struct qc_arena *a, struct qc_status *st)
{
    struct qc_matches found;
    struct qc_uses uses;
    if (!(*reason = QC_NEW_ARRAY(a, const char *, g->node_count + 1, st))) return false;
    if (!are_for(o)) return true;
    if (!qc_uses_of(&uses, g, a, st) || !qc_matches_find(&found, g, rules, QC_RULE_COST, is_due, &uses, a, st))
        return false;
    QC_EACH_NODE_BACK(n, g) { /* readers first */
        const struct qc_match *m = found.at[n->id];
        if (m && !is_fixed(o, g, n) &&
            (m->rule->where != QC_COST_FLOATS || only_floats_read(*reason, &uses, n->outputs)))
            (*reason)[n->id] = qc_arena_printf(a, st, QC_FASTER_IN_FLOAT "%s", m->rule->inside);
    }
    const bool partly = leaves_products(*reason, g, o);
    for (qc_id id = 1; id <= g->node_count; id++)
        if (!partly && (*reason)[id] && found.at[id]->rule->where == QC_COST_PARTLY) (*reason)[id] = NULL;
    return st->code == QC_OK;
}
