// SPDX-License-Identifier: Apache-2.0
#include "rewrite/match.h"

#include <math.h>

/* Commutative ops are tried as they stand and swapped: bit k of swapped says how the k-th that was met is taken. */
struct matcher {
    const struct qc_graph *g;
    const uint32_t *uses;
    unsigned swapped, met;
    struct qc_match m;
};

static bool commutative(enum qc_op op)
{
    return op == QC_OP_Add || op == QC_OP_Mul || op == QC_OP_Max || op == QC_OP_Min;
}

static bool bind(qc_id *slot, qc_id id)
{
    if (*slot) return *slot == id;
    *slot = id;
    return true;
}

static bool match_space(struct matcher *x, const struct qc_space_expr *e, qc_id value)
{
    if (!e->given) return true;
    qc_id s = x->g->values[value].type.space;
    if (!s) return false;
    const struct qc_space *space = &x->g->spaces[s];
    if (!e->product) return bind(&x->m.spaces[e->first], s);
    return space->kind == QC_SPACE_PRODUCT && bind(&x->m.spaces[e->first], space->a) && bind(&x->m.spaces[e->second], space->b);
}

static bool match_expr(struct matcher *x, const struct qc_expr *e, qc_id v, bool root);

static bool match_args(struct matcher *x, const struct qc_expr *e, const struct qc_node *n, bool swapped)
{
    for (unsigned i = 0; i < e->arg_count; i++) {
        unsigned k = swapped ? 1 - i : i;
        qc_id v = k < n->input_count ? n->inputs[k] : QC_ABSENT;
        if (v == QC_ABSENT) {
            if (e->args[i]->kind != QC_EXPR_CAPTURE || !e->args[i]->optional) return false;
            continue;
        }
        if (!match_expr(x, e->args[i], v, false)) return false;
    }
    for (unsigned k = e->arg_count; k < n->input_count; k++)
        if (n->inputs[k] != QC_ABSENT) return false;
    return true;
}

static bool match_op(struct matcher *x, const struct qc_expr *e, qc_id v, bool root)
{
    const struct qc_node *n = qc_node_of(x->g, v);
    if (!n || n->op != e->op || n->output_count != 1) return false;
    if (!root && x->uses[v] != 1 && e->op != QC_OP_Quantize && e->op != QC_OP_Dequantize) return false;
    bool ours = e->op == QC_OP_Quantize || e->op == QC_OP_Requantize;
    if (ours && !match_space(x, &e->space, v)) return false;
    if (e->op == QC_OP_Dequantize && !match_space(x, &e->space, n->inputs[0])) return false;
    if (x->m.node_count == QC_RULE_OPS) return false;
    x->m.nodes[x->m.node_count++] = x->g->values[v].node;
    bool both_ways = commutative(e->op) && e->arg_count == 2 && n->input_count == 2;
    return match_args(x, e, n, both_ways && (x->swapped >> x->met++ & 1));
}

static bool match_expr(struct matcher *x, const struct qc_expr *e, qc_id v, bool root)
{
    if (e->kind == QC_EXPR_OP) return match_op(x, e, v, root) && (e->op == QC_OP_Quantize || e->op == QC_OP_Dequantize || e->op == QC_OP_Requantize || match_space(x, &e->space, v));
    if (e->constant && !qc_constant_of(x->g, v)) return false;
    return match_space(x, &e->space, v) && bind(&x->m.values[e->slot], v);
}

bool qc_match_at(struct qc_match *out, const struct qc_rule *rule, const struct qc_graph *g, const uint32_t *uses, qc_id value)
{
    for (unsigned swapped = 0;;) {
        struct matcher x = {.g = g, .uses = uses, .swapped = swapped, .m = {.rule = rule, .root = value}};
        if (match_expr(&x, rule->match, value, true) && qc_guards_hold(&x.m, g, uses)) {
            *out = x.m;
            return true;
        }
        while (x.met && (swapped >> (x.met - 1) & 1)) x.met--; /* the last one met that stood as it is is swapped next */
        if (!x.met) return false;
        swapped = (swapped & ((1u << (x.met - 1)) - 1)) | 1u << (x.met - 1);
    }
}

const struct qc_node *qc_match_node(const struct qc_match *m, const struct qc_graph *g, enum qc_op op)
{
    for (unsigned i = 0; i < m->node_count; i++)
        if (g->nodes[m->nodes[i]].op == op) return &g->nodes[m->nodes[i]];
    return NULL;
}

static double term_value(const struct qc_guard_term *t, const struct qc_match *m, const struct qc_graph *g, const uint32_t *uses)
{
    if (t->function) {
        qc_id args[4] = {0};
        for (unsigned i = 0; i < t->arg_count; i++) args[i] = t->function->wants_space[i] ? m->spaces[t->args[i]] : m->values[t->args[i]];
        return t->function->value(g, uses, args);
    }
    if (!t->attribute) return t->number;
    const struct qc_node *n = qc_match_node(m, g, t->op);
    const struct qc_attr *a = n ? qc_attr_find(n, t->attribute) : NULL;
    if (!a) return t->number;
    return a->kind == QC_ATTR_INT ? (double)a->i : a->kind == QC_ATTR_FLOAT ? (double)a->f : (double)NAN;
}

bool qc_guards_hold(const struct qc_match *m, const struct qc_graph *g, const uint32_t *uses)
{
    for (unsigned i = 0; i < m->rule->guard_count; i++) {
        const struct qc_guard *guard = &m->rule->guards[i];
        double a = term_value(&guard->left, m, g, uses), b = term_value(&guard->right, m, g, uses);
        bool holds = false;
        switch (guard->compare) {
        case QC_COMPARE_TRUE: holds = a != 0 && a == a; break;
        case QC_COMPARE_EQ: holds = a == b; break;
        case QC_COMPARE_NE: holds = a != b; break;
        case QC_COMPARE_LT: holds = a < b; break;
        case QC_COMPARE_LE: holds = a <= b; break;
        case QC_COMPARE_GT: holds = a > b; break;
        case QC_COMPARE_GE: holds = a >= b; break;
        }
        if (!holds) return false;
    }
    return true;
}
