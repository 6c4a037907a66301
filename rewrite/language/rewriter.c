// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/rewriter.h"

#include "rewrite/language/expression.h"

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

static unsigned choose_matches(struct matcher *x, unsigned options)
{
    if (options < 2 || x->met == POINTS) return 0;
    unsigned k = x->met++;
    x->options[k] = (unsigned char)options;
    if (k >= x->decided) x->choice[k] = 0;
    return x->choice[k];
}

static bool bind_slot(qc_id *slot, qc_id id)
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
    if (!e->product) return bind_slot(&x->m.qparams_of[e->first], s);
    return qparams->kind == QC_QPARAMS_PRODUCT && bind_slot(&x->m.qparams_of[e->first], qparams->a) &&
           bind_slot(&x->m.qparams_of[e->second], qparams->b);
}

static bool match_expr(struct matcher *x, const struct qc_expr *e, qc_id v, bool root);
static bool holds(const struct qc_expr *when, const struct qc_match *m, const struct qc_graph *g, const uint32_t *uses);

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

/* Returns true for an island, a cost or a refusal, and for a pattern whose template is the matched op with other
   inputs: all results of the op stay. */
static bool stays_outermost(const struct qc_rule *rule, enum qc_op op)
{
    if (rule->kind == QC_RULE_COST || rule->kind == QC_RULE_REFUSE || rule->kind == QC_RULE_ISLAND) return true;
    return rule->kind == QC_RULE_PATTERN && rule->give && rule->give->kind == QC_EXPR_OP && has_op(rule->give, op);
}

static bool match_expr(struct matcher *x, const struct qc_expr *e, qc_id v, bool root)
{
    if (e->kind == QC_EXPR_CHOICE)
        return match_expr(x, e->args[choose_matches(x, e->arg_count)], v, root) && match_qparams(x, &e->qparams, v) &&
               match_type(x, e, v);
    if (e->kind == QC_EXPR_OP) {
        const struct qc_node *n = qc_node_of(x->g, v);
        bool there = n && has_op(e, n->op) && (n->output_count == 1 || (root && stays_outermost(x->m.rule, n->op)));
        if (e->optional && (!there || choose_matches(x, 2))) return match_expr(x, e->args[0], v, root);
        if (!there || (!x->island && !root && x->uses[v] != 1 && n->op != QC_OP_Quantize && n->op != QC_OP_Dequantize))
            return false;
        qc_id stored = n->op == QC_OP_Dequantize ? n->inputs[0] : v; /* the integer side */
        if (!match_qparams(x, &e->qparams, stored) || !match_type(x, e, stored)) return false;
        bool known = false;
        for (unsigned i = 0; x->island && i < x->m.node_count; i++) known = known || x->m.nodes[i] == n->id;
        if (!known && x->m.node_count == QC_ISLAND_OPS) return false;
        if (!known) x->m.nodes[x->m.node_count++] = n->id;
        const bool commutes = n->op == QC_OP_Add || n->op == QC_OP_Mul || n->op == QC_OP_Max || n->op == QC_OP_Min,
                   both_ways = commutes && e->arg_count == 2 && n->input_count == 2;
        return match_args(x, e, n, both_ways && choose_matches(x, 2));
    }
    if (e->constant && !qc_constant_of(x->g, v)) return false;
    return match_qparams(x, &e->qparams, v) && match_type(x, e, v) && bind_slot(&x->m.values[e->slot], v);
}

/* Returns true if a match of the expression may have this op at its root. */
static bool expr_may_begin(const struct qc_expr *e, enum qc_op op)
{
    if (e->kind == QC_EXPR_OP) return has_op(e, op) || (e->optional && expr_may_begin(e->args[0], op));
    for (unsigned i = 0; e->kind == QC_EXPR_CHOICE && i < e->arg_count; i++)
        if (expr_may_begin(e->args[i], op)) return true;
    return false;
}

/* Matches one rule with its root at a value; uses as of qc_graph_uses. Of several ways to match it takes the first in
   the order of the rule's text: the op of `Op?(...)` before its argument, alternatives as written, operands of
   commutative ops as they stand before swapped. It gives up after 4096 ways. */
static bool match_at(struct qc_match *out, const struct qc_rule *rule, const struct qc_graph *g, const uint32_t *uses,
                     qc_id value)
{
    struct matcher x = {.g = g, .uses = uses, .island = rule->kind == QC_RULE_ISLAND};
    for (unsigned way = 0; way < WAYS; way++) {
        x.m = (struct qc_match){.rule = rule, .root = value};
        x.met = 0;
        if (match_expr(&x, rule->match, value, true) && (!x.island || is_closed(&x)) &&
            holds(rule->when, &x.m, g, uses)) {
            *out = x.m;
            return true;
        }
        /* The last point with another option takes it. */
        unsigned k = x.met;
        while (k && x.choice[k - 1] + 1 >= x.options[k - 1]) k--;
        if (!k) return false;
        x.choice[k - 1]++;
        x.decided = k;
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

/* Returns true if the guard (NULL: none) holds. One that cannot be computed does not. */
static bool holds(const struct qc_expr *when, const struct qc_match *m, const struct qc_graph *g, const uint32_t *uses)
{
    struct qc_status ignored; /* only its code is read */
    struct qc_frame f = {.st = &ignored, .match = m, .graph = g, .uses = uses};
    ignored.code = QC_OK;
    const struct qc_fvalue v = when ? qc_expr_evaluate(&f, when) : qc_fvalue_whole(1);
    return qc_fvalue_holds(&v);
}

bool qc_guard_fits_node(const struct qc_expr *when, const struct qc_graph *g, const struct qc_node *n)
{
    struct qc_match m = {.root = n->outputs, .node_count = 1, .nodes = {g->values[n->outputs].node}};
    return holds(when, &m, g, NULL);
}

enum { ROUNDS = 200, GROWTH = 64 };

static void mark_live(bool *live, const struct qc_graph *g, qc_id v)
{
    if (v && g->values[v].kind == QC_VALUE_RESULT) live[g->values[v].node] = true;
}

static bool overlaps(const struct qc_match *m, const bool *taken)
{
    unsigned i = 0;
    while (i < m->node_count && !taken[m->nodes[i]]) i++;
    return i < m->node_count;
}

/* Returns the rules of the kind for the chosen targets, by decreasing size; equal sizes in the order of the files. */
static const struct qc_rule **sorted_rules(size_t *count, const struct qc_rules *rules, enum qc_rule_kind kind,
                                           struct qc_arena *a, struct qc_status *st)
{
    const struct qc_rule **list = QC_NEW_ARRAY(a, const struct qc_rule *, rules->count, st);
    size_t n = 0;
    for (unsigned size = QC_ISLAND_OPS; list && size >= 1; size--)
        for (size_t i = 0; i < rules->count; i++) {
            const struct qc_rule *r = &rules->rules[i];
            const bool gives = kind == QC_RULE_REWRITE || kind == QC_RULE_PATTERN;
            if (r->kind == kind && r->size == size && (gives ? r->give != NULL : qc_rules_for_target(rules, r->target)))
                list[n++] = r;
        }
    *count = n;
    return list;
}

bool qc_matches_find(struct qc_matches *out, const struct qc_graph *g, const struct qc_rules *rules,
                     enum qc_rule_kind kind, qc_accept_fn *accept, void *user, struct qc_arena *a, struct qc_status *st)
{
    size_t rule_count = 0;
    const struct qc_rule **list = sorted_rules(&rule_count, rules, kind, a, st);
    uint32_t *uses = qc_graph_uses(g, a, st);
    bool *taken =
        QC_NEW_ARRAY(a, bool, g->node_count + 1, st); /* inner nodes of a match, except dq and q, which may be shared */
    *out = (struct qc_matches){.at = QC_NEW_ARRAY(a, struct qc_match *, g->node_count + 1, st),
                               .live = QC_NEW_ARRAY(a, bool, g->node_count + 1, st)};
    if (!list || !uses || !taken || !out->at || !out->live) return false;
    for (size_t i = 0; i < g->output_count; i++) mark_live(out->live, g, g->outputs[i].value);
    QC_EACH_NODE_BACK(n, g) {
        if (!out->live[n->id]) continue;
        struct qc_match found = {0}, tried;
        for (size_t i = 0; i < rule_count && list[i]->size > found.node_count;
             i++) /* A rule may match fewer ops than its size. */
            if (expr_may_begin(list[i]->match, n->op) && match_at(&tried, list[i], g, uses, n->outputs) &&
                tried.node_count > found.node_count && !overlaps(&tried, taken) && (!accept || accept(user, &tried)))
                found = tried;
        if (!found.node_count) {
            for (unsigned i = 0; i < n->input_count; i++) mark_live(out->live, g, n->inputs[i]);
            continue;
        }
        if (!(out->at[n->id] = qc_arena_dup(a, &found, 1, sizeof found, st))) return false;
        out->count++;
        for (unsigned i = 1; i < found.node_count; i++)
            if (kind == QC_RULE_ISLAND || uses[g->nodes[found.nodes[i]].outputs] == 1) taken[found.nodes[i]] = true;
        for (unsigned i = 0; i < found.rule->slot_count; i++) mark_live(out->live, g, found.values[i]);
    }
    return true;
}

void qc_endless_begin(struct qc_endless *e, const struct qc_graph *g)
{
    *e = (struct qc_endless){.least = g->node_count, .most = GROWTH * (g->node_count + ROUNDS)};
}

bool qc_endless_check(struct qc_endless *e, const struct qc_matches *m, const struct qc_graph *g, struct qc_status *st)
{
    if (g->node_count < e->least) {
        e->least = g->node_count;
        e->rounds = 0;
    }
    if (e->rounds++ < ROUNDS && g->node_count <= e->most) return true;
    for (size_t i = 1; i <= g->node_count; i++)
        if (m->at[i]) {
            const struct qc_rule *r = m->at[i]->rule;
            return qc_fail(
                st, QC_BAD_INPUT,
                "%s:%u: rule '%s' still matches after %u rounds, with %zu nodes: it undoes itself or another rule",
                r->file, r->line, r->name, e->rounds, g->node_count);
        }
    return true;
}

bool qc_rewrite(struct qc_graph **out, size_t *applied, const struct qc_graph *g, const struct qc_rules *rules,
                struct qc_status *st)
{
    QC_GRAPH_SCOPE *current = NULL;
    struct qc_endless endless;
    struct qc_matches m = {.count = 1};
    size_t total = 0;
    qc_endless_begin(&endless, g);
    while (m.count) {
        const struct qc_graph *from = current ? current : g;
        struct qc_graph *next = NULL;
        QC_ARENA_SCOPE *a = qc_arena_new();
        if (!qc_matches_find(&m, from, rules, QC_RULE_REWRITE, NULL, NULL, a, st) ||
            !qc_endless_check(&endless, &m, from, st))
            return false;
        QC_REBUILD_SCOPE r = {0};
        if (!qc_rebuild_begin(&r, from, st)) return false;
        QC_EACH_NODE(n, from) {
            if (!m.live[n->id] || st->code != QC_OK) continue;
            struct qc_build b = {.rebuild = &r, .match = m.at[n->id]};
            if (b.match)
                r.map[n->outputs] = qc_build_template(&b, st);
            else
                qc_rebuild_node(&r, n->id, st);
        }
        if (!qc_rebuild_finish(&next, &r, st)) return false;
        total += m.count;
        qc_graph_free(current);
        current = next;
    }
    *out = current;
    current = NULL;
    if (applied) *applied = total;
    return true;
}
