// SPDX-License-Identifier: Apache-2.0
#include "rewrite/language/rewriter.h"

enum { ROUNDS = 200, GROWTH = 64 };

static void mark_live(bool *live, const struct qc_graph *g, qc_id v)
{
    if (v && g->values[v].kind == QC_VALUE_RESULT) live[g->values[v].node] = true;
}

static bool overlaps(const struct qc_match *m, const bool *taken)
{
    for (unsigned i = 0; i < m->node_count; i++)
        if (taken[m->nodes[i]]) return true;
    return false;
}

static bool is_for_target(const struct qc_rules *rules, const struct qc_rule *r)
{
    if (r->kind == QC_RULE_REWRITE || r->kind == QC_RULE_PATTERN) return r->give != NULL;
    return qc_rules_for_target(rules, r->target);
}

/* Returns the rules of the kind for the chosen targets, by decreasing size; equal sizes in the order of the files. */
static const struct qc_rule **sorted(size_t *count, const struct qc_rules *rules, enum qc_rule_kind kind,
                                     struct qc_arena *a, struct qc_status *st)
{
    const struct qc_rule **list = QC_NEW_ARRAY(a, const struct qc_rule *, rules->count, st);
    size_t n = 0;
    for (unsigned size = QC_ISLAND_OPS; list && size >= 1; size--)
        for (size_t i = 0; i < rules->count; i++)
            if (rules->rules[i].kind == kind && rules->rules[i].size == size && is_for_target(rules, &rules->rules[i]))
                list[n++] = &rules->rules[i];
    *count = n;
    return list;
}

bool qc_matches_find(struct qc_matches *out, const struct qc_graph *g, const struct qc_rules *rules,
                     enum qc_rule_kind kind, qc_accept_fn *accept, void *user, struct qc_arena *a, struct qc_status *st)
{
    size_t rule_count = 0;
    const struct qc_rule **list = sorted(&rule_count, rules, kind, a, st);
    uint32_t *uses = qc_graph_uses(g, a, st);
    bool *taken =
        QC_NEW_ARRAY(a, bool, g->node_count + 1, st); /* inner nodes of a match, except dq and q, which may be shared */
    *out = (struct qc_matches){.at = QC_NEW_ARRAY(a, struct qc_match *, g->node_count + 1, st),
                               .live = QC_NEW_ARRAY(a, bool, g->node_count + 1, st)};
    if (!list || !uses || !taken || !out->at || !out->live) return false;
    for (size_t i = 0; i < g->output_count; i++) mark_live(out->live, g, g->outputs[i].value);
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        if (!out->live[id]) continue;
        struct qc_match found = {0}, tried;
        for (size_t i = 0; i < rule_count && list[i]->size > found.node_count;
             i++) /* A rule may match fewer ops than its size. */
            if (qc_expr_may_begin(list[i]->match, n->op) && qc_match_at(&tried, list[i], g, uses, n->outputs) &&
                tried.node_count > found.node_count && !overlaps(&tried, taken) && (!accept || accept(user, &tried)))
                found = tried;
        if (!found.node_count) {
            for (unsigned i = 0; i < n->input_count; i++) mark_live(out->live, g, n->inputs[i]);
            continue;
        }
        if (!(out->at[id] = qc_arena_dup(a, &found, 1, sizeof found, st))) return false;
        out->count++;
        for (unsigned i = 1; i < found.node_count; i++)
            if (kind == QC_RULE_ISLAND || uses[g->nodes[found.nodes[i]].outputs] == 1) taken[found.nodes[i]] = true;
        for (unsigned i = 0; i < found.rule->slot_count; i++) mark_live(out->live, g, found.values[i]);
    }
    return true;
}

/* Builds the graph with every match replaced by its template; other nodes are copied. qparams as in struct qc_build. */
static bool apply(struct qc_graph **out, const struct qc_graph *g, const struct qc_matches *m, qc_qparams_fn *qparams,
                  void *user, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    bool ok = false;
    if (!qc_rebuild_begin(&r, g, st)) goto out;
    for (qc_id id = 1; id <= g->node_count; id++) {
        if (!m->live[id]) continue;
        if (!m->at[id]) {
            if (!qc_rebuild_node(&r, id, st)) goto out;
            continue;
        }
        struct qc_build b = {.rebuild = &r, .match = m->at[id], .qparams = qparams, .user = user};
        if (!(r.map[g->nodes[id].outputs] = qc_build_template(&b, st))) goto out;
    }
    ok = qc_rebuild_finish(out, &r, st);
out:
    qc_rebuild_free(&r);
    return ok;
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
    struct qc_graph *current = NULL, *next = NULL;
    struct qc_endless endless;
    size_t total = 0;
    qc_endless_begin(&endless, g);
    for (;;) {
        const struct qc_graph *from = current ? current : g;
        struct qc_arena *a = qc_arena_new();
        struct qc_matches m;
        bool ok = a ? qc_matches_find(&m, from, rules, QC_RULE_REWRITE, NULL, NULL, a, st) : qc_fail_memory(st, 1);
        ok = ok && qc_endless_check(&endless, &m, from, st) && apply(&next, from, &m, NULL, NULL, st);
        bool done = ok && m.count == 0;
        total += ok ? m.count : 0;
        qc_arena_free(a);
        qc_graph_free(current);
        current = ok ? next : NULL;
        next = NULL;
        if (!ok) return false;
        if (done) {
            *out = current;
            if (applied) *applied = total;
            return true;
        }
    }
}
