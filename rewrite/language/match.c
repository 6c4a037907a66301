// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/match.h"

#include <math.h>
#include <string.h>

enum { WAYS = 4096, POINTS = 32 };

/* If a rule can match in several ways, the matcher meets points of choice and tries all ways in order. */
struct matcher {
    const struct qc_graph *g;
    const uint32_t *uses;
    bool island; /* An op may be matched more than once; its users are checked at the end. */
    unsigned met, decided;
    unsigned char choice[POINTS], options[POINTS];
    struct qc_match m;
};

static unsigned choose(struct matcher *x, unsigned options)
{
    if (options < 2 || x->met == POINTS) return 0;
    unsigned k = x->met++;
    x->options[k] = (unsigned char)options;
    if (k >= x->decided) x->choice[k] = 0;
    return x->choice[k];
}

/* Advances to the next way: the last point with another option takes it. Returns false after the last way. */
static bool next_way(struct matcher *x)
{
    for (unsigned k = x->met; k; k--)
        if (x->choice[k - 1] + 1 < x->options[k - 1]) {
            x->choice[k - 1]++;
            x->decided = k;
            return true;
        }
    return false;
}

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

static bool match_qparams(struct matcher *x, const struct qc_qparams_expr *e, qc_id value)
{
    if (!e->given) return true;
    qc_id s = x->g->values[value].type.qparams;
    if (!s) return false;
    const struct qc_qparams *qparams = &x->g->qparams_of[s];
    if (!e->product) return bind(&x->m.qparams_of[e->first], s);
    return qparams->kind == QC_QPARAMS_PRODUCT && bind(&x->m.qparams_of[e->first], qparams->a) &&
           bind(&x->m.qparams_of[e->second], qparams->b);
}

static bool match_expr(struct matcher *x, const struct qc_expr *e, qc_id v, bool root);
static bool guards_hold(const struct qc_match *m, const struct qc_graph *g, const uint32_t *uses);

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

static bool has_op(const struct qc_expr *e, enum qc_op op)
{
    for (unsigned i = 0; i < e->op_count; i++)
        if (e->ops[i] == op) return true;
    return false;
}

static bool match_type(const struct matcher *x, const struct qc_expr *e, qc_id value)
{
    const struct qc_type *t = &x->g->values[value].type;
    return e->dtype == QC_NONE || e->dtype == (t->qparams ? x->g->qparams_of[t->qparams].dtype : t->dtype);
}

static bool has_node(const struct qc_match *m, qc_id node)
{
    for (unsigned i = 0; i < m->node_count; i++)
        if (m->nodes[i] == node) return true;
    return false;
}

static bool add_node(struct matcher *x, qc_id node)
{
    if (x->island && has_node(&x->m, node)) return true;
    if (x->m.node_count == QC_ISLAND_OPS) return false;
    x->m.nodes[x->m.node_count++] = node;
    return true;
}

/* Returns true if no node outside uses a value inside. */
static bool is_closed(const struct matcher *x)
{
    for (unsigned i = 1; i < x->m.node_count; i++) {
        const qc_id result = x->g->nodes[x->m.nodes[i]].outputs;
        uint32_t inside = 0;
        for (unsigned k = 0; k < x->m.node_count; k++) {
            const struct qc_node *n = &x->g->nodes[x->m.nodes[k]];
            for (unsigned j = 0; j < n->input_count; j++) inside += n->inputs[j] == result;
        }
        if (inside != x->uses[result]) return false;
    }
    return true;
}

/* Returns true for a cost or refusal, and for a pattern whose template is the matched op with other inputs: all results
   of the op stay. */
static bool stays_outermost(const struct qc_rule *rule, enum qc_op op)
{
    if (rule->kind == QC_RULE_COST || rule->kind == QC_RULE_REFUSE) return true;
    return rule->kind == QC_RULE_PATTERN && rule->give && rule->give->kind == QC_EXPR_OP && has_op(rule->give, op);
}

static bool match_op(struct matcher *x, const struct qc_expr *e, qc_id v, bool root)
{
    const struct qc_node *n = qc_node_of(x->g, v);
    bool there = n && has_op(e, n->op) && (n->output_count == 1 || (root && stays_outermost(x->m.rule, n->op)));
    if (e->optional && (!there || choose(x, 2))) return match_expr(x, e->args[0], v, root);
    if (!there || (!x->island && !root && x->uses[v] != 1 && n->op != QC_OP_Quantize && n->op != QC_OP_Dequantize))
        return false;
    qc_id stored = n->op == QC_OP_Dequantize ? n->inputs[0] : v; /* the integer side */
    if (!match_qparams(x, &e->qparams, stored) || !match_type(x, e, stored)) return false;
    if (!add_node(x, x->g->values[v].node)) return false;
    bool both_ways = commutative(n->op) && e->arg_count == 2 && n->input_count == 2;
    return match_args(x, e, n, both_ways && choose(x, 2));
}

static bool match_expr(struct matcher *x, const struct qc_expr *e, qc_id v, bool root)
{
    if (e->kind == QC_EXPR_CHOICE)
        return match_expr(x, e->args[choose(x, e->arg_count)], v, root) && match_qparams(x, &e->qparams, v) &&
               match_type(x, e, v);
    if (e->kind == QC_EXPR_OP) return match_op(x, e, v, root);
    if (e->constant && !qc_constant_of(x->g, v)) return false;
    return match_qparams(x, &e->qparams, v) && match_type(x, e, v) && bind(&x->m.values[e->slot], v);
}

bool qc_expr_may_begin(const struct qc_expr *e, enum qc_op op)
{
    if (e->kind == QC_EXPR_OP) return has_op(e, op) || (e->optional && qc_expr_may_begin(e->args[0], op));
    for (unsigned i = 0; e->kind == QC_EXPR_CHOICE && i < e->arg_count; i++)
        if (qc_expr_may_begin(e->args[i], op)) return true;
    return false;
}

bool qc_match_at(struct qc_match *out, const struct qc_rule *rule, const struct qc_graph *g, const uint32_t *uses,
                 qc_id value)
{
    struct matcher x = {.g = g, .uses = uses, .island = rule->kind == QC_RULE_ISLAND};
    for (unsigned way = 0; way < WAYS; way++) {
        x.m = (struct qc_match){.rule = rule, .root = value};
        x.met = 0;
        if (match_expr(&x, rule->match, value, true) && (!x.island || is_closed(&x)) && guards_hold(&x.m, g, uses)) {
            *out = x.m;
            return true;
        }
        if (!next_way(&x)) return false;
    }
    return false;
}

const struct qc_node *qc_match_node_of(const struct qc_match *m, const struct qc_graph *g, const struct qc_expr *e)
{
    for (unsigned i = 0; i < m->node_count; i++)
        if (has_op(e, g->nodes[m->nodes[i]].op)) return &g->nodes[m->nodes[i]];
    return NULL;
}

const struct qc_node *qc_match_node(const struct qc_match *m, const struct qc_graph *g, enum qc_op op)
{
    for (unsigned i = 0; i < m->node_count; i++)
        if (g->nodes[m->nodes[i]].op == op) return &g->nodes[m->nodes[i]];
    return NULL;
}

/* Returns the attribute of the matched node, or NULL. */
static const struct qc_attr *attribute_of(const struct qc_guard_term *t, const struct qc_match *m,
                                          const struct qc_graph *g)
{
    const struct qc_node *n = qc_match_node(m, g, t->op);
    return n ? qc_attr_find(n, t->attribute) : NULL;
}

static double attribute_number(const struct qc_guard_term *t, const struct qc_match *m, const struct qc_graph *g)
{
    const struct qc_attr *a = attribute_of(t, m, g);
    if (!a) return t->text ? (double)NAN : t->number;
    size_t i = t->index < 0 ? 0 : (size_t)t->index;
    switch (a->kind) {
    case QC_ATTR_INT: return t->index < 0 ? (double)a->i : (double)NAN;
    case QC_ATTR_FLOAT: return t->index < 0 ? (double)a->f : (double)NAN;
    case QC_ATTR_INTS: return t->index >= 0 && i < a->count ? (double)a->ints[i] : (double)NAN;
    case QC_ATTR_FLOATS: return t->index >= 0 && i < a->count ? (double)a->floats[i] : (double)NAN;
    case QC_ATTR_STRING:
    case QC_ATTR_STRINGS:
    case QC_ATTR_TENSOR:
    case QC_ATTR_GRAPH: break;
    }
    return (double)NAN;
}

static double term_value(const struct qc_guard_term *t, const struct qc_match *m, const struct qc_graph *g,
                         const uint32_t *uses)
{
    struct qc_guard_call c = {.graph = g, .uses = uses, .match = m};
    switch (t->kind) {
    case QC_TERM_NUMBER: return t->number;
    case QC_TERM_TEXT: return (double)NAN;
    case QC_TERM_ATTRIBUTE: return attribute_number(t, m, g);
    case QC_TERM_FUNCTION: break;
    }
    for (unsigned i = 0; i < t->arg_count; i++) switch (t->function->args[i]) {
        case QC_GUARD_NONE: break;
        case QC_GUARD_VALUE: c.ids[i] = m->values[t->slots[i]]; break;
        case QC_GUARD_QPARAMS: c.ids[i] = m->qparams_of[t->slots[i]]; break;
        case QC_GUARD_NUMBER: c.numbers[i] = term_value(t->args[i], m, g, uses); break;
        }
    return t->function->value(&c);
}

/* Returns the text of a term, or NULL if it is a number. */
static const char *term_text(const struct qc_guard_term *t, const struct qc_match *m, const struct qc_graph *g)
{
    if (t->kind == QC_TERM_TEXT) return t->text;
    if (t->kind != QC_TERM_ATTRIBUTE) return NULL;
    const struct qc_attr *a = attribute_of(t, m, g);
    return !a ? t->text : a->kind == QC_ATTR_STRING ? a->s : NULL;
}

static bool compare(enum qc_compare how, double a, double b)
{
    switch (how) {
    case QC_COMPARE_TRUE: return a != 0 && a == a;
    case QC_COMPARE_EQ: return a == b;
    case QC_COMPARE_NE: return a != b;
    case QC_COMPARE_LT: return a < b;
    case QC_COMPARE_LE: return a <= b;
    case QC_COMPARE_GT: return a > b;
    case QC_COMPARE_GE: return a >= b;
    }
    return false;
}

/* Returns true if the guard holds. Texts can only be equal or not; a text equals no number. */
static bool holds(const struct qc_guard *guard, const struct qc_match *m, const struct qc_graph *g,
                  const uint32_t *uses)
{
    const char *a = term_text(&guard->left, m, g), *b = term_text(&guard->right, m, g);
    if (a && b) return compare(guard->compare, (double)strcmp(a, b), 0);
    return compare(guard->compare, term_value(&guard->left, m, g, uses), term_value(&guard->right, m, g, uses));
}

static bool guards_hold(const struct qc_match *m, const struct qc_graph *g, const uint32_t *uses)
{
    for (unsigned i = 0; i < m->rule->guard_count; i++)
        if (holds(&m->rule->guards[i], m, g, uses) == m->rule->guards[i].negated) return false;
    return true;
}

bool qc_guards_fit_node(const struct qc_guard *guards, unsigned count, const struct qc_graph *g,
                        const struct qc_node *n)
{
    struct qc_match m = {.root = n->outputs, .node_count = 1, .nodes = {g->values[n->outputs].node}};
    for (unsigned i = 0; i < count; i++)
        if (holds(&guards[i], &m, g, NULL) == guards[i].negated) return false;
    return true;
}
