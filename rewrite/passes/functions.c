// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/functions.h"

#include <string.h>

#include "base/scope.h"
#include "graph/core/function.h"

struct joining {
    const struct qc_rules *rules;
    const struct qc_graph *g;
    struct qc_arena *arena;
    uint32_t *uses;
    qc_id *base;        /* [value_count + 1]: the nearest value of which this one is a function, 0: none or several */
    bool *refused;      /* [node_count + 1]: no pattern matches the table that ends here */
    bool *inner;        /* [node_count + 1]: part of a table that ends elsewhere */
    qc_id *variable;    /* [node_count + 1]: variable of the table that ends here, or 0 */
    const char **text;  /* [node_count + 1]: its function */
    const char **names; /* and the names of its nodes */
    qc_id *made;        /* [node_count + 1]: the node in the joined graph */
    const struct qc_partition_options *options; /* NULL: for a model that is quantized already */
};

/* Returns true for a float op of the list whose operands are numbers and values of the result's shape. */
static bool is_step(const struct joining *x, const struct qc_node *n)
{
    const struct qc_graph *g = x->g;
    const struct qc_type *t = &g->values[n->outputs].type;
    if (!qc_function_takes(n->op, n->input_count) || n->output_count != 1 || n->attr_count > QC_FUNCTION_ATTRS)
        return false;
    if ((x->options && qc_partition_skips(x->options, g, n, NULL)) || t->dtype != QC_F32 || t->qparams != QC_REAL ||
        t->shape.rank < 0 || (x->options && !qc_rules_in_table(x->rules, g, n)))
        return false;
    for (unsigned i = 0; i < n->attr_count; i++)
        if (n->attrs[i].kind != QC_ATTR_FLOAT && n->attrs[i].kind != QC_ATTR_STRING) return false;
    for (unsigned i = 0; i < n->input_count; i++) {
        const struct qc_tensor *number = qc_constant_of(g, n->inputs[i]);
        if (!n->inputs[i] || (number && number->dtype == QC_F32 && number->count == 1)) continue;
        if (number || (n->op == QC_OP_Clip && i) || !qc_shape_equal(&g->values[n->inputs[i]].type.shape, &t->shape))
            return false;
    }
    return true;
}

/* Returns the first value on both chains of bases, or 0. */
static qc_id meet(const struct joining *x, qc_id a, qc_id b)
{
    for (unsigned i = 0; a && i <= QC_FUNCTION_STEPS; i++, a = x->base[a]) {
        qc_id v = b;
        for (unsigned k = 0; v && k <= QC_FUNCTION_STEPS; k++, v = x->base[v])
            if (v == a) return a;
    }
    return 0;
}

/* The nodes between a value and its variable, including the value's own. */
struct region {
    unsigned count;
    qc_id nodes[QC_FUNCTION_STEPS];
};

/* Finds the nodes from v down to the variable. Returns false if there are too many, or if a node outside uses one of
   their results. */
static bool find_region(struct region *r, const struct joining *x, qc_id v, qc_id variable)
{
    const struct qc_graph *g = x->g;
    *r = (struct region){.count = 1, .nodes = {g->values[v].node}};
    for (unsigned at = 0; at < r->count; at++) {
        const struct qc_node *n = &g->nodes[r->nodes[at]];
        for (unsigned i = 0; i < n->input_count; i++) {
            qc_id in = n->inputs[i];
            if (!in || in == variable || qc_constant_of(g, in)) continue;
            if (g->values[in].kind != QC_VALUE_RESULT || !x->base[in]) return false;
            bool known = false;
            for (unsigned k = 0; k < r->count; k++) known = known || r->nodes[k] == g->values[in].node;
            if (known) continue;
            if (r->count == QC_FUNCTION_STEPS) return false;
            r->nodes[r->count++] = g->values[in].node;
        }
    }
    for (unsigned at = 1; at < r->count; at++) {
        qc_id result = g->nodes[r->nodes[at]].outputs;
        uint32_t inside = 0;
        for (unsigned k = 0; k < r->count; k++)
            for (unsigned i = 0; i < g->nodes[r->nodes[k]].input_count; i++)
                inside += g->nodes[r->nodes[k]].inputs[i] == result;
        if (inside != x->uses[result]) return false;
        if (x->options && qc_given_of_value(x->options->given, g, result)) return false;
    }
    return true;
}

static bool is_leading_clamp(const struct qc_node *n)
{
    return qc_node_affine(n) == QC_AFFINE_BOUND;
}

static bool compose(struct qc_function_arg *out, struct qc_function *f, const struct joining *x, qc_id v,
                    qc_id variable)
{
    const struct qc_node *n = qc_node_of(x->g, v);
    struct qc_function_step s = {0};
    *out = (struct qc_function_arg){.kind = v == variable ? QC_ARG_X : v ? QC_ARG_NUMBER : QC_ARG_ABSENT};
    if (!v || v == variable) return true;
    if (qc_constant_of(x->g, v)) {
        out->number = (float)qc_tensor_float(qc_constant_of(x->g, v), 0);
        return true;
    }
    s.op = n->op;
    s.node = n->name;
    s.value = x->g->values[v].name;
    s.arg_count = n->input_count;
    s.attr_count = n->attr_count;
    for (unsigned i = 0; i < n->attr_count; i++) s.attrs[i] = n->attrs[i];
    for (unsigned i = 0; i < n->input_count; i++)
        if (!compose(&s.args[i], f, x, n->inputs[i], variable)) return false;
    out->kind = QC_ARG_STEP;
    return qc_function_put(&out->step, f, &s);
}

/* Runs from the outputs up, so that tables are as large as possible. */
static bool find_tables(struct joining *x, struct qc_status *st)
{
    const struct qc_graph *g = x->g;
    QC_EACH_NODE_BACK(n, g) {
        const qc_id id = n->id;
        struct qc_function f = {0};
        struct qc_function_arg top;
        struct region r;
        x->variable[id] = 0;
        if (x->inner[id] || x->refused[id] || !x->base[n->outputs] || is_leading_clamp(n)) continue;
        /* The farthest variable such that only the table uses the values in between, or 0 */
        qc_id chain[QC_FUNCTION_STEPS + 1];
        unsigned count = 0;
        for (qc_id v = x->base[n->outputs]; v && count <= QC_FUNCTION_STEPS; v = x->base[v]) {
            if (!find_region(&r, x, n->outputs, v)) break;
            chain[count++] = v;
        }
        while (count > 1 && is_leading_clamp(qc_node_of(g, chain[count - 2])))
            count--; /* the clamp's result is stored, not its input */
        const qc_id variable = count && find_region(&r, x, n->outputs, chain[count - 1]) ? chain[count - 1] : 0;
        if (!variable || r.count < 2 || !compose(&top, &f, x, n->outputs, variable) || f.count < 2) continue;
        if (!(x->text[id] = qc_function_print(&f, x->arena, st))) continue;
        x->names[id] = qc_function_names(&f, x->arena, st);
        x->variable[id] = variable;
        for (unsigned k = 1; k < r.count; k++) x->inner[r.nodes[k]] = true;
    }
    return st->code == QC_OK;
}

static bool build_table(struct qc_graph **out, const struct joining *x, struct qc_status *st)
{
    QC_REBUILD_SCOPE r = {0};
    if (!qc_rebuild_begin(&r, x->g, st)) return false;
    QC_EACH_NODE(n, x->g) {
        if (x->inner[n->id]) continue;
        if (!x->variable[n->id]) {
            qc_rebuild_node(&r, n->id, st);
            continue;
        }
        const qc_id input = qc_rebuild_value(&r, x->variable[n->id], st);
        const qc_id y =
            qc_graph_add(r.to,
                         QC_NODE(QC_OP_Table, QC_INPUTS(input),
                                 QC_ATTRS(QC_STRING("f", x->text[n->id]), QC_STRING("names", x->names[n->id])),
                                 QC_RESULT(x->g->values[n->outputs].name), .name = n->name),
                         st);
        r.map[n->outputs] = y;
        x->made[n->id] = r.to->values[y].node;
    }
    return qc_rebuild_finish(out, &r, st);
}

/* Refuses the tables that no pattern matches. Returns true if there was one. */
static bool refuse_unmatched(struct joining *x, const struct qc_graph *joined, struct qc_status *st)
{
    struct qc_partition *p = NULL;
    if (!x->options) {
        /* those that are not between a DequantizeLinear and one QuantizeLinear */
        const struct qc_graph *g = x->g;
        bool *quantized = QC_NEW_ARRAY(x->arena, bool, g->value_count + 1, st), any = false;
        if (!quantized) return false;
        QC_EACH_NODE(n, g)
            if (n->op == QC_OP_QuantizeLinear) quantized[n->inputs[0]] = true;
        QC_EACH_NODE(n, g) {
            const struct qc_node *from = qc_node_of(g, x->variable[n->id]);
            if (!x->inner[n->id] && x->variable[n->id] &&
                (!from || from->op != QC_OP_DequantizeLinear || !quantized[n->outputs] || x->uses[n->outputs] != 1))
                any = x->refused[n->id] = true;
        }
        return any;
    }
    struct qc_partition_options o = *x->options;
    bool any = false;
    o.skip_count = 0; /* --skip, --only types: nodes that they name are in no table and are checked later */
    o.activation_type_count = o.weight_type_count = 0;
    o.shapes = NULL; /* of the values of another graph */
    if (!qc_partition_new(&p, joined, x->rules, &o, st)) return false;
    for (qc_id id = 1; id <= x->g->node_count; id++)
        if (!x->inner[id] && x->variable[id] && !p->matches.at[x->made[id]]) any = x->refused[id] = true;
    qc_partition_free(p);
    return any;
}

bool qc_join_functions(struct qc_graph **out, const struct qc_graph *g, const struct qc_rules *rules,
                       const struct qc_partition_options *options, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct joining x = {.rules = rules,
                        .g = g,
                        .options = options,
                        .arena = a,
                        .uses = qc_graph_uses(g, a, st),
                        .base = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st),
                        .refused = QC_NEW_ARRAY(a, bool, g->node_count + 1, st),
                        .inner = QC_NEW_ARRAY(a, bool, g->node_count + 1, st),
                        .variable = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st),
                        .text = QC_NEW_ARRAY(a, const char *, g->node_count + 1, st),
                        .names = QC_NEW_ARRAY(a, const char *, g->node_count + 1, st),
                        .made = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st)};
    if (st->code != QC_OK) return false;
    QC_EACH_NODE(n, g) {
        qc_id base = 0;
        struct region r;
        if (!is_step(&x, n)) continue;
        for (unsigned i = 0; i < n->input_count; i++) {
            if (!n->inputs[i] || qc_constant_of(g, n->inputs[i])) continue;
            base = base ? meet(&x, base, n->inputs[i]) : n->inputs[i];
            if (!base) break;
        }
        x.base[n->outputs] = base && find_region(&r, &x, n->outputs, base) ? base : 0;
    }
    for (;;) {
        struct qc_graph *joined = NULL;
        memset(x.inner, 0, (g->node_count + 1) * sizeof *x.inner);
        if (!find_tables(&x, st) || !build_table(&joined, &x, st)) return false;
        if (!refuse_unmatched(&x, joined, st)) return QC_HAND_OVER(st->code == QC_OK, out, joined, qc_graph_free);
        qc_graph_free(joined);
    }
}
