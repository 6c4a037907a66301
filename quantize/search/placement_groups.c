// SPDX-License-Identifier: Apache-2.0
#include "quantize/search/searches.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/union_find.h"
#include "graph/core/function.h"
#include "graph/core/multiply_adds.h"
#include "rewrite/passes/partition.h"

struct finding {
    const struct qc_graph *g;    /* the partitioned graph */
    const struct qc_graph *made; /* the produced graph */
    const struct qc_partition *partition;
    struct qc_arena *a;
    struct qc_placement_groups *to;
    qc_id *node;         /* [ops] in g */
    const char **kind;   /* [ops] */
    const char **layer;  /* [ops]: the kind with the shape of the weight */
    const char **island; /* [ops]: the structure of its connected set */
    uint64_t *work;      /* [ops] */
    uint32_t *connected; /* [nodes of g + 1]: sets */
};

/* ---- Operators ---- */

static bool add_skip(struct qc_placed_op *op, const char *name, struct qc_arena *a, struct qc_status *st)
{
    return !*name || (op->skip[op->skip_count++] = qc_glob_of_name(name, a, st)) != NULL;
}

static const char *option_name(const struct qc_graph *g, const struct qc_node *n)
{
    const char *name = n->name && *n->name ? n->name : g->values[n->outputs].name;
    return name ? name : "";
}

/* Fills the name and the globs of an operator. A table stands for several operators, each of which could be quantized
   alone, so each gets a glob. */
static bool name_op(struct qc_placed_op *op, const struct finding *f, const struct qc_node *n, struct qc_status *st)
{
    const char *name = option_name(f->g, n);
    struct qc_function steps = {.count = 0};
    if (n->op == QC_OP_Table && !qc_function_of(&steps, n, f->a, st)) return false;
    *op = (struct qc_placed_op){.skip = QC_NEW_ARRAY(f->a, const char *, steps.count + 1, st)};
    if (!op->skip || !(op->name = qc_arena_strdup(f->a, name, st)) || !add_skip(op, name, f->a, st)) return false;
    for (unsigned i = 0; i + 1 < steps.count; i++) {
        const struct qc_function_step *s = &steps.steps[i];
        if (!add_skip(op, s->node && *s->node ? s->node : s->value ? s->value : "", f->a, st)) return false;
    }
    return true;
}

static const char *dims(const struct qc_shape *s, int from, struct qc_arena *a, struct qc_status *st)
{
    const char *text = qc_arena_strdup(a, "", st);
    for (int d = from; text && d < s->rank; d++)
        text = qc_arena_printf(a, st, "%s%s%lld", text, d > from ? "x" : "", (long long)s->dim[d]);
    return text;
}

static const struct qc_tensor *product_weight(const struct qc_graph *g, const struct qc_node *n)
{
    if (!qc_multiplies(n->op)) return NULL;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *t = n->inputs[i] ? qc_constant_of(g, n->inputs[i]) : NULL;
        if (t && t->shape.rank > 1) return t;
    }
    return NULL;
}

/* Sets the kind, "Conv 3x3, depthwise", and the layer, "Conv 32x1x3x3 in 32 groups", of operator i. */
static bool name_kind(struct finding *f, size_t i, const struct qc_match *m, struct qc_status *st)
{
    const struct qc_node *n = &f->g->nodes[m->nodes[0]];
    for (unsigned k = 0; k < m->node_count && !qc_multiplies(n->op); k++)
        if (qc_multiplies(f->g->nodes[m->nodes[k]].op)) n = &f->g->nodes[m->nodes[k]];
    const char *op = qc_op_info(n->op)->name;
    const struct qc_tensor *w = product_weight(f->g, n);
    const int64_t groups = qc_attr_int(n, "group", 1);
    uint64_t work;
    f->work[i] = qc_multiplies(n->op) && qc_multiply_adds(&work, f->g, (qc_id)(n - f->g->nodes)) ? work : 0;
    f->kind[i] = f->layer[i] = op;
    if (!w) return true;
    const char *all = dims(&w->shape, 0, f->a, st), *window = w->shape.rank > 2 ? dims(&w->shape, 2, f->a, st) : "";
    if (!all || !window) return false;
    if (*window)
        f->kind[i] = qc_arena_printf(f->a, st, "%s %s%s", op, window,
                                     groups == 1            ? ""
                                     : w->shape.dim[1] == 1 ? ", depthwise"
                                                            : ", grouped");
    f->layer[i] = groups == 1 ? qc_arena_printf(f->a, st, "%s %s", op, all)
                              : qc_arena_printf(f->a, st, "%s %s in %lld groups", op, all, (long long)groups);
    return f->kind[i] && f->layer[i];
}

static bool find_ops(struct finding *f, struct qc_status *st)
{
    const struct qc_graph *g = f->g;
    struct qc_placement_groups *to = f->to;
    to->ops = QC_NEW_ARRAY(f->a, struct qc_placed_op, g->node_count + 1, st);
    f->node = QC_NEW_ARRAY(f->a, qc_id, g->node_count + 1, st);
    f->kind = QC_NEW_ARRAY(f->a, const char *, g->node_count + 1, st);
    f->layer = QC_NEW_ARRAY(f->a, const char *, g->node_count + 1, st);
    f->work = QC_NEW_ARRAY(f->a, uint64_t, g->node_count + 1, st);
    if (!to->ops || !f->node || !f->kind || !f->layer || !f->work) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_match *m = f->partition->matches.at[id];
        struct qc_placed_op *op = &to->ops[to->op_count];
        if (!m || f->partition->reason[id]) continue;
        if (!name_op(op, f, &g->nodes[id], st)) return false;
        if (!op->skip_count) continue; /* no option can name it */
        f->node[to->op_count] = id;
        if (!name_kind(f, to->op_count++, m, st)) return false;
    }
    return true;
}

/* ---- Operators connected in integers ---- */

/* Joins the nodes of g that exchange integers. Integer values that one node of the produced graph reads and writes are
   connected; nodes of g are found there by the names of their results. */
static bool connect_nodes(struct finding *f, struct qc_status *st)
{
    const struct qc_graph *g = f->made;
    uint32_t *values = QC_NEW_ARRAY(f->a, uint32_t, g->value_count + 1, st);
    qc_id *first = QC_NEW_ARRAY(f->a, qc_id, g->value_count + 1, st);
    f->connected = QC_NEW_ARRAY(f->a, uint32_t, f->g->node_count + 1, st);
    if (!values || !first || !f->connected) return false;
    qc_union_start(values, g->value_count + 1);
    qc_union_start(f->connected, f->g->node_count + 1);
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        qc_id with = g->values[n->outputs].type.qparams != QC_REAL ? n->outputs : 0;
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id v = n->inputs[i];
            if (!v || qc_constant_of(g, v) || g->values[v].type.qparams == QC_REAL) continue;
            if (with) qc_union_join(values, with, v);
            with = v;
        }
    }
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        /* The node of g that computes the value with the name of `made`, or 0. */
        const char *name = f->made->values[n->outputs].name;
        const qc_id v = name ? qc_graph_find_value(f->g, name) : 0;
        const qc_id node = v && f->g->values[v].kind == QC_VALUE_RESULT ? f->g->values[v].node : 0;
        if (!node) continue;
        qc_id at = g->values[n->outputs].type.qparams != QC_REAL ? n->outputs : 0;
        for (unsigned i = 0; i < n->input_count && !at; i++)
            if (n->inputs[i] && !qc_constant_of(g, n->inputs[i]) && g->values[n->inputs[i]].type.qparams != QC_REAL)
                at = n->inputs[i];
        if (!at) continue;
        const uint32_t root = qc_union_root(values, at);
        if (first[root]) qc_union_join(f->connected, first[root], node);
        first[root] = first[root] ? first[root] : node;
    }
    return true;
}

/* Names the structure of a set: its layers, sorted. */
static bool name_island(struct finding *f, uint32_t root, struct qc_status *st)
{
    const size_t count = f->to->op_count;
    const char **layers = QC_NEW_ARRAY(f->a, const char *, count, st), *text = qc_arena_strdup(f->a, "", st);
    size_t n = 0;
    if (!layers || !text) return false;
    for (size_t i = 0; i < count; i++)
        if (qc_union_root(f->connected, f->node[i]) == root) layers[n++] = f->layer[i];
    if (!n) return true;
    qsort(layers, n, sizeof *layers, qc_order_text);
    for (size_t i = 0; text && i < n; i++) text = qc_arena_printf(f->a, st, "%s%s%s", text, i ? ", " : "", layers[i]);
    for (size_t i = 0; text && i < count; i++)
        if (qc_union_root(f->connected, f->node[i]) == root) f->island[i] = text;
    return text != NULL;
}

static bool find_islands(struct finding *f, struct qc_status *st)
{
    if (!(f->island = QC_NEW_ARRAY(f->a, const char *, f->to->op_count, st)) || !connect_nodes(f, st)) return false;
    for (size_t i = 0; i < f->to->op_count; i++)
        if (!f->island[i] && !name_island(f, qc_union_root(f->connected, f->node[i]), st)) return false;
    return true;
}

/* ---- Groups ---- */

/* Returns the name of a connected group: "connected: Conv 1x1, Conv 3x3, Add, Mul and 2 others". */
static const char *describe_island(const struct finding *f, const bool *has, struct qc_status *st)
{
    const char *text = qc_arena_strdup(f->a, "connected: ", st), *kinds[QC_PLACEMENT_NAMED];
    size_t n = 0, others = 0;
    for (size_t i = 0; text && i < f->to->op_count; i++) {
        size_t k = 0;
        if (!has[i]) continue;
        while (k < n && strcmp(kinds[k], f->kind[i]) != 0) k++;
        if (k < n) continue;
        if (n == QC_PLACEMENT_NAMED) {
            others++;
            continue;
        }
        text = qc_arena_printf(f->a, st, "%s%s%s", text, n ? ", " : "", f->kind[i]);
        kinds[n++] = f->kind[i];
    }
    return text && others ? qc_arena_printf(f->a, st, "%s and %zu other%s", text, others, others == 1 ? "" : "s")
                          : text;
}

static bool is_there(const struct qc_placement_groups *to, const bool *has)
{
    for (size_t k = 0; k < to->group_count; k++)
        if (memcmp(to->groups[k].has, has, to->op_count * sizeof *has) == 0) return true;
    return false;
}

static int by_work(const void *a, const void *b)
{
    const struct qc_placement_group *x = a, *y = b;
    return x->work < y->work ? 1 : x->work > y->work ? -1 : strcmp(x->what, y->what);
}

/* Adds a group for each distinct name, unless an equal group exists. */
static bool add_groups(struct finding *f, const char *const *names, bool islands, struct qc_status *st)
{
    struct qc_placement_groups *to = f->to;
    const size_t before = to->group_count, count = to->op_count;
    for (size_t i = 0; i < count; i++) {
        struct qc_placement_group g = {.what = names[i]};
        size_t k = 0;
        while (strcmp(names[k], names[i]) != 0) k++;
        if (k < i) continue;
        if (!(g.has = QC_NEW_ARRAY(f->a, bool, count, st))) return false;
        for (k = i; k < count; k++) {
            g.has[k] = strcmp(names[k], names[i]) == 0;
            g.op_count += g.has[k];
            g.work += g.has[k] ? f->work[k] : 0;
        }
        if (is_there(to, g.has)) continue;
        if (islands && !(g.what = describe_island(f, g.has, st))) return false;
        to->groups[to->group_count++] = g;
    }
    if (to->group_count > before) qsort(to->groups + before, to->group_count - before, sizeof *to->groups, by_work);
    return true;
}

bool qc_placement_groups_find(struct qc_placement_groups *out, const struct qc_network *net, struct qc_arena *a,
                              struct qc_status *st)
{
    struct finding f = {.g = net->joined, .made = net->produced, .partition = net->partition, .a = a, .to = out};
    *out = (struct qc_placement_groups){.op_count = 0};
    if (!find_ops(&f, st) || !find_islands(&f, st) ||
        !(out->groups = QC_NEW_ARRAY(a, struct qc_placement_group, 3 * out->op_count + 1, st)))
        return false;
    return add_groups(&f, f.kind, false, st) && add_groups(&f, f.island, true, st) &&
           add_groups(&f, f.layer, false, st);
}

bool qc_placement_of(bool **in_float, const struct qc_placement_groups *g, const struct qc_network *net,
                     struct qc_arena *a, struct qc_status *st)
{
    if (!(*in_float = QC_NEW_ARRAY(a, bool, g->op_count, st))) return false;
    for (size_t i = 0; i < g->op_count; i++) (*in_float)[i] = true;
    for (qc_id id = 1; id <= net->joined->node_count; id++) {
        if (!net->partition->matches.at[id]) continue;
        const char *name = option_name(net->joined, &net->joined->nodes[id]);
        for (size_t i = 0; i < g->op_count; i++)
            if (strcmp(g->ops[i].name, name) == 0) (*in_float)[i] = false;
    }
    return true;
}
