// SPDX-License-Identifier: Apache-2.0
/* Names in options: --skip, --only, and types of nodes. */
#include <fnmatch.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "graph/core/source_call.h"
#include "graph/core/uses.h"
#include "rewrite/language/expansion.h"
#include "rewrite/passes/partition.h"

/* ---- Operators of the model that rules have rewritten ---- */

static int by_name(const void *a, const void *b)
{
    const struct qc_model_op *x = a, *y = b;
    return strcmp(x->name, y->name);
}

/* Returns the value of g with the name of a value of the model, or 0. */
static qc_id value_in(const struct qc_graph *g, const struct qc_graph *model, qc_id v)
{
    const char *name = model->values[v].name;
    return name ? qc_graph_find_value(g, name) : 0;
}

/* Returns the node of g that computes a node of the model and, if *joined, others behind it; NULL if it is not known.
 */
static const struct qc_node *stand_in(bool *joined, const struct qc_graph *g, const struct qc_uses *uses,
                                      const struct qc_node *n)
{
    enum { STEPS = 16 };
    qc_id v = n->outputs, found = value_in(g, uses->graph, v);
    *joined = !found;
    for (unsigned i = 0; !found && i < STEPS; i++) {
        const struct qc_use_list readers = qc_readers(uses, v);
        if (!readers.count) return NULL;
        v = uses->graph->nodes[readers.of[0].node].outputs;
        found = value_in(g, uses->graph, v);
    }
    return found ? qc_node_of(g, found) : NULL;
}

bool qc_model_ops_of(const struct qc_model_ops **out, const struct qc_graph *model, const struct qc_graph *g,
                     struct qc_arena *a, struct qc_status *st)
{
    QC_ARENA_SCOPE *scratch = qc_arena_new();
    struct qc_model_ops *ops = QC_NEW(a, struct qc_model_ops, st);
    struct qc_uses uses;
    if (!scratch) return qc_fail_memory(st, 1);
    if (!ops || !qc_uses_of(&uses, model, scratch, st) ||
        !(ops->of = QC_NEW_ARRAY(scratch, struct qc_model_op, model->node_count + model->call_count, st)))
        return false;
    ops->model = model;
    QC_EACH_NODE(n, model) {
        bool joined, product = qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT;
        const struct qc_node *now = stand_in(&joined, g, &uses, n);
        if (!now || now->op == n->op) continue;
        product = product && qc_op_info(now->op)->affine == QC_AFFINE_PRODUCT;
        /* Its inputs, except constants, are values of g: no rule has joined their makers to it. */
        bool alone = true;
        for (unsigned i = 0; i < n->input_count; i++)
            alone = alone && (!n->inputs[i] || qc_is_constant(model, n->inputs[i]) || value_in(g, model, n->inputs[i]));
        if (joined ? product : alone) {
            const char *name = now->name && *now->name ? now->name : g->values[now->outputs].name;
            if (name) ops->of[ops->count++] = (struct qc_model_op){.name = name, .op = qc_op_info(n->op)->name};
        }
    }
    for (size_t i = 0; i < model->call_count; i++)
        if (model->calls[i].op)
            ops->of[ops->count++] = (struct qc_model_op){.name = model->calls[i].label, .op = model->calls[i].op};
    qsort(ops->of, ops->count, sizeof *ops->of, by_name);
    *out = ops;
    return (ops->of = qc_arena_dup(a, ops->of, ops->count, sizeof *ops->of, st)) != NULL;
}

/* Returns true if a node of this name stands for an op `s` of the model, or for any (s NULL). */
static bool stands_for(const struct qc_model_ops *ops, const char *s, const char *name)
{
    size_t lo = 0, hi = ops->count;
    while (lo < hi) {
        const size_t mid = lo + (hi - lo) / 2;
        if (strcmp(ops->of[mid].name, name) < 0)
            lo = mid + 1;
        else
            hi = mid;
    }
    for (; lo < ops->count && strcmp(ops->of[lo].name, name) == 0; lo++) {
        const char *op = ops->of[lo].op, *colons = strstr(op, "::");
        if (!s || strcmp(s, op) == 0 || (colons && strcmp(s, colons + 2) == 0)) return true;
    }
    return false;
}

/* ---- Names of nodes and ops ---- */

/* Returns the name of the operator whose part the node is: "attn" for "attn/MatMul"; NULL if it has none. */
static const char *name_of_whole(char label[QC_LABEL], const struct qc_node *n)
{
    const char *end = n->name ? strrchr(n->name, '/') : NULL;
    if (!end || (size_t)(end - n->name) >= QC_LABEL) return NULL;
    return qc_text(label, QC_LABEL, "%.*s", (int)(end - n->name), n->name);
}

/* Returns true if s is the op of the node, or the op of the model that it stands for. */
static bool is_op(const char *s, const struct qc_partition_options *o, const struct qc_graph *g,
                  const struct qc_node *n)
{
    char label[QC_LABEL];
    const char *result = g->values[n->outputs].name, *whole;
    if (strcmp(s, qc_op_info(n->op)->name) == 0) return true;
    if (!o->model || !o->model->count) return false;
    return (n->name && *n->name && stands_for(o->model, s, n->name)) || (result && stands_for(o->model, s, result)) ||
           ((whole = name_of_whole(label, n)) && stands_for(o->model, s, whole));
}

bool qc_node_is_of_call(const struct qc_graph *g, const struct qc_node *n)
{
    char label[QC_LABEL];
    const char *whole = name_of_whole(label, n);
    for (size_t i = 0; whole && i < g->call_count; i++)
        if (strcmp(g->calls[i].label, whole) == 0) return true;
    return false;
}

static bool is_named(const char *s, const struct qc_graph *g, const struct qc_node *n)
{
    const char *result = g->values[n->outputs].name;
    return (n->name && fnmatch(s, n->name, 0) == 0) || (result && fnmatch(s, result, 0) == 0);
}

bool qc_node_fits(const char *s, const struct qc_partition_options *o, const struct qc_graph *g,
                  const struct qc_node *n)
{
    char label[QC_LABEL];
    if (is_op(s, o, g, n) || is_named(s, g, n)) return true;
    const char *whole = name_of_whole(label, n); /* the operator of the file that this node is a part of */
    return whole && fnmatch(s, whole, 0) == 0 &&
           ((o->model && stands_for(o->model, NULL, whole)) || qc_node_is_of_call(g, n));
}

const char *qc_glob_of_name(const char *name, struct qc_arena *a, struct qc_status *st)
{
    char *glob = QC_NEW_ARRAY(a, char, 2 * strlen(name) + 1, st), *to = glob;
    for (; glob && *name; name++) {
        if (strchr("*?[]\\", *name)) *to++ = '\\';
        *to++ = *name;
    }
    return glob;
}

bool qc_partition_skips(const struct qc_partition_options *o, const struct qc_graph *g, const struct qc_node *n,
                        bool *used)
{
    bool any = false;
    for (size_t i = 0; i < o->skip_count; i++) {
        bool fits = qc_node_fits(o->skip[i], o, g, n);
        if (fits && used) used[i] = true;
        any = any || fits;
    }
    return any;
}

bool qc_partition_chooses(const struct qc_partition_options *o, const struct qc_graph *g, const struct qc_match *m)
{
    qc_id at = m->nodes[0];
    for (unsigned i = 0; i < m->node_count; i++)
        if (qc_op_info(g->nodes[m->nodes[i]].op)->affine == QC_AFFINE_PRODUCT) at = m->nodes[i];
    for (size_t i = 0; i < o->only_count; i++)
        if (strcmp(o->only[i], m->rule->name) == 0 || is_op(o->only[i], o, g, &g->nodes[at])) return true;
    return !o->only_count;
}

/* ---- Names that fit nothing ---- */

/* Fails with the closest of count names as a suggestion. */
static bool unknown(const char *option, const char *given, const char *what, const char *const *names, size_t count,
                    const char *see, struct qc_status *st)
{
    const char *meant = qc_closest(given, names, count);
    if (meant && strcmp(meant, given) == 0) meant = NULL; /* it exists, but no pattern quantizes it */
    return qc_fail(st, QC_USAGE, "--%s %s: %s%s; %s", option, given, what, QC_MEANT("", meant), see);
}

/* Fails if the name is that of a node of the model that --skip cannot name: it is a part of another one, or it has no
   form of its own in integers. */
static bool check_model_node(const struct qc_partition *p, const struct qc_rules *rules, const char *given,
                             struct qc_status *st)
{
    const struct qc_graph *g = p->graph, *model = p->options.model ? p->options.model->model : g;
    char label[2][QC_LABEL];
    struct qc_uses uses;
    if (!qc_uses_of(&uses, model, p->arena, st)) return false;
    QC_EACH_NODE(n, model) {
        bool joined, constant = true;
        const char *op = qc_op_info(n->op)->name, *of = qc_node_label(label[0], model, n);
        if (strcmp(given, op) != 0 && !is_named(given, model, n)) continue;
        for (unsigned i = 0; i < n->input_count; i++)
            constant = constant && (!n->inputs[i] || qc_is_constant(model, n->inputs[i]));
        if (constant) return qc_fail(st, QC_USAGE, "--skip %s: '%.200s' is computed from constants", given, of);
        const struct qc_node *now = stand_in(&joined, g, &uses, n);
        if (!now) return true;
        if (joined || now->op != n->op)
            return qc_fail(st, QC_USAGE, "--skip %s: '%.200s' (%s) is a part of '%.200s' (%s), which --skip can name",
                           given, of, op, qc_node_label(label[1], g, now), qc_op_info(now->op)->name);
        if (qc_rules_behaviour(rules, g, now) != QC_AFFINE_NONE)
            return qc_fail(st, QC_USAGE,
                           "--skip %s: '%.200s' (%s) only moves, joins or clamps values and stores them as the "
                           "operators around it do; --skip these",
                           given, of, op);
        return qc_fail(st, QC_USAGE, "--skip %s: '%.200s' (%s) stays in float without it", given, of, op);
    }
    return true;
}

bool qc_partition_check_names(const struct qc_partition *p, const struct qc_rules *rules, const bool *skip_used,
                              const struct qc_types_used *types_used, struct qc_status *st)
{
    const struct qc_partition_options *o = &p->options;
    const struct qc_graph *g = p->graph;
    const char **names = QC_NEW_ARRAY(p->arena, const char *, rules->count + QC_OP_COUNT + 3 * g->node_count, st);
    size_t count = 0;
    if (!names) return false;
    for (size_t k = 0; k < rules->count; k++)
        if (rules->rules[k].kind == QC_RULE_PATTERN) names[count++] = rules->rules[k].name;
    for (int op = 1; op < QC_OP_COUNT; op++) names[count++] = qc_op_info((enum qc_op)op)->name;
    for (size_t i = 0; i < o->only_count; i++) {
        bool known = false;
        for (size_t k = 0; k < count; k++) known = known || strcmp(names[k], o->only[i]) == 0;
        if (!known)
            return unknown("only", o->only[i], "there is no such pattern or operator", names, count,
                           "see 'qcalib list rules'", st);
    }
    if (o->part) return true;
    for (size_t i = 0; i < o->skip_count; i++) {
        bool skips_step = skip_used[i]; /* keeps an op out of a table; alone, no pattern may match it */
        for (qc_id id = 1; !skips_step && id <= g->node_count; id++)
            skips_step = qc_node_fits(o->skip[i], o, g, &g->nodes[id]) && qc_rules_in_table(rules, g, &g->nodes[id]);
        if (skips_step) continue;
        if (!check_model_node(p, rules, o->skip[i], st)) return false;
        count = 0;
        QC_EACH_NODE(n, g) {
            names[count++] = n->name;
            names[count++] = g->values[n->outputs].name;
            names[count++] = qc_op_info(n->op)->name;
        }
        return unknown("skip", o->skip[i], "no quantizable node of that name, op or glob", names, count,
                       "'qcalib inspect -v MODEL' lists them", st);
    }
    return qc_types_check(o, types_used, st);
}
