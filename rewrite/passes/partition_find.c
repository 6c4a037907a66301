// SPDX-License-Identifier: Apache-2.0
#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "base/shown.h"
#include "base/union_find.h"
#include "graph/core/source_call.h"
#include "graph/core/uses.h"
#include "rewrite/language/rewriter.h"
#include "rewrite/passes/costs.h"
#include "rewrite/passes/fillers.h"
#include "rewrite/passes/partition.h"
#include "rewrite/passes/placed_by_time.h"

/* Nodes that a target cannot run: the rules `refuse` (docs/targets.md). */

/* Fails (QC_UNSUPPORTED) with the name and the reason of every node that a rule refuses. */
static bool check_refused(const struct qc_graph *g, const struct qc_rules *rules, struct qc_status *st)
{
    QC_ARENA_SCOPE *a = qc_arena_new();
    struct qc_matches found;
    char list[1500] = "", label[QC_LABEL];
    size_t used = 0, count = 0;
    if (!qc_matches_find(&found, g, rules, QC_RULE_REFUSE, NULL, NULL, a, st)) return false;
    QC_EACH_NODE(n, g) {
        if (!found.at[n->id]) continue;
        count++;
        if (used + 200 > sizeof list) continue;
        qc_text(list + used, (unsigned)(sizeof list - used), "%s'%.60s' (%s: %.80s)", used ? ", " : "",
                qc_node_label(label, g, n), qc_op_info(n->op)->name, found.at[n->id]->rule->inside);
        used += strlen(list + used);
    }
    return !count || qc_fail(st, QC_UNSUPPORTED, "the target refuses %zu op%s: %s", count, count == 1 ? "" : "s", list);
}

/* Drops the match at a node, which stays as it is. */
static void partition_drop(struct qc_partition *p, qc_id node)
{
    struct qc_match *m = p->matches.at[node];
    for (unsigned i = 0; i < m->node_count; i++) p->matches.live[m->nodes[i]] = true;
    p->matches.at[node] = NULL;
    p->matches.count--;
}

struct finder {
    struct qc_partition *p;
    bool *skip_used, *island;          /* island: [node_count + 1], inside an island */
    struct qc_partition_options asked; /* with the caller's entries of skip alone */
    bool *skipped_join;                /* [node_count + 1]: --skip keeps the node out of a pattern that joins */
    const char **cost;                 /* [node_count + 1]: why it is faster in float, or NULL */
    struct qc_types_used types_used;
    struct qc_status status; /* of memory while matches are found */
};

/* Visits the captures that the template quantizes: fn(user, value). */
static void each_quantized(const struct qc_expr *e, const struct qc_match *m, void (*fn)(void *user, qc_id value),
                           void *user)
{
    const qc_id v = qc_template_quantizes(m, e);
    if (v) {
        fn(user, v);
        return;
    }
    for (unsigned i = 0; i < e->arg_count; i++) each_quantized(e->args[i], m, fn, user);
}

const char qc_partition_unfed[] = "no sample has elements for it";

struct check {
    const struct qc_graph *g;
    const struct qc_partition_options *options;
    unsigned activations;
    bool real, empty, unfed; /* empty: a constant has no elements; unfed: an activation is in options.unfed */
};

static void check_real(void *user, qc_id v)
{
    struct check *c = user;
    const struct qc_type *t = &c->g->values[v].type;
    if (t->dtype != QC_F32 || t->qparams != QC_REAL) c->real = false;
    const struct qc_tensor *constant = qc_constant_of(c->g, v);
    if (!constant) c->activations++;
    for (size_t i = 0; !constant && i < c->options->unfed_count; i++)
        c->unfed = c->unfed || (c->g->values[v].name && strcmp(c->g->values[v].name, c->options->unfed[i]) == 0);
    if (constant && !constant->count) c->empty = true;
}

static bool accept(void *user, const struct qc_match *m)
{
    struct finder *f = user;
    struct qc_partition *p = f->p;
    const struct qc_graph *g = p->graph;
    struct check c = {.g = g, .options = &p->options, .real = true};
    for (unsigned i = 0; i < m->node_count; i++)
        if (qc_partition_skips(&p->options, g, &g->nodes[m->nodes[i]], f->skip_used)) {
            const bool asked = qc_partition_skips(&f->asked, g, &g->nodes[m->nodes[i]], NULL);
            p->reason[m->nodes[0]] = asked ? "left in float by --skip" : "left in float by the job, as by --skip";
            f->skipped_join[m->nodes[0]] = m->rule->joins && asked;
            return false;
        }
    for (unsigned i = 0; i < m->node_count; i++) {
        const char *name = g->nodes[m->nodes[i]].name, *const *kept = p->options.kept;
        bool is_kept = false;
        for (size_t k = 0; name && k < p->options.kept_count; k++)
            is_kept = is_kept || strncmp(name, kept[k], strlen(kept[k])) == 0;
        if (!is_kept) continue;
        p->reason[m->nodes[0]] = "as in the model, whose weights have few bits; --weight-type replaces them";
        return false;
    }
    if (!qc_partition_chooses(&p->options, g, m)) {
        p->reason[m->nodes[0]] = "left in float by --only";
        return false;
    }
    for (unsigned i = 0; i < m->node_count; i++) {
        const struct qc_node *n = &g->nodes[m->nodes[i]];
        if (f->island[m->nodes[i]]) return false;
        if (f->cost[m->nodes[i]]) {
            p->cost_count += p->reason[m->nodes[i]] != f->cost[m->nodes[i]];
            p->reason[m->nodes[i]] = f->cost[m->nodes[i]];
            qc_types_store_weight(p, m, true, f->cost[m->nodes[i]], &f->status);
            return false;
        }
        if (n->outputs != m->root && qc_given_of_value(p->options.given, g, n->outputs)) return false;
        if (qc_adds_vast_mask(g, n)) {
            p->reason[m->nodes[i]] = "adds a mask of numbers that are too large for a scale";
            return false;
        }
    }
    each_quantized(m->rule->give, m, check_real, &c);
    if (!c.real) p->reason[m->nodes[0]] = "its inputs are not float32";
    if (c.unfed) p->reason[m->nodes[0]] = qc_partition_unfed;
    return c.real && !c.empty && !c.unfed && (c.activations || qc_types_weights_alone(p, m)) &&
           qc_types_accept(p, m, &f->types_used);
}

/* Keeps the nodes inside islands in float; the report names the island. */
static bool find_islands(struct finder *f, const struct qc_rules *rules, struct qc_status *st)
{
    struct qc_partition *p = f->p;
    const struct qc_graph *g = p->graph;
    struct qc_matches islands;
    f->island = QC_NEW_ARRAY(p->arena, bool, g->node_count + 1, st);
    if (!f->island || !qc_matches_find(&islands, g, rules, QC_RULE_ISLAND, NULL, NULL, p->arena, st)) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_match *m = islands.at[id];
        const char *reason = m ? qc_arena_printf(p->arena, st, "inside %s", m->rule->inside) : NULL;
        for (unsigned i = 0; m && i < m->node_count; i++) {
            f->island[m->nodes[i]] = true;
            p->reason[m->nodes[i]] = reason;
        }
    }
    return st->code == QC_OK;
}

/* Returns the capture that is quantized to qparams of this name, or 0. */
static qc_id quantized_to(const struct qc_expr *e, const struct qc_match *m, unsigned name)
{
    if (e->kind != QC_EXPR_OP) return 0;
    if (e->op == QC_OP_Quantize && !e->qparams.product && e->qparams.first == name &&
        e->args[0]->kind == QC_EXPR_CAPTURE)
        return m->values[e->args[0]->slot];
    for (unsigned i = 0; i < e->arg_count; i++) {
        qc_id v = quantized_to(e->args[i], m, name);
        if (v) return v;
    }
    return 0;
}

qc_id qc_partition_stored_as(const struct qc_match *m)
{
    const struct qc_expr *give = m->rule->give, *e = give->args[0];
    if (e->kind != QC_EXPR_OP) return 0;
    if (e->op == QC_OP_Quantize) return e->qparams.product ? 0 : quantized_to(e->args[0], m, e->qparams.first);
    return give->op == QC_OP_Dequantize && !give->qparams.product && qc_op_info(e->op)->affine == QC_AFFINE_MERGE
               ? quantized_to(e, m, give->qparams.first)
               : 0;
}

bool qc_partition_covers(const struct qc_match *m)
{
    return m->rule->give->args[0]->op == QC_OP_Quantize;
}

/* Joins two classes, unless the model gives them different parameters. */
static void join_quantizers(struct qc_partition *p, qc_id a, qc_id b)
{
    const struct qc_given *x = p->given[qc_union_root(p->class_of, a)], *y = p->given[qc_union_root(p->class_of, b)];
    if (!qc_given_same(x, y)) return;
    qc_union_join(p->class_of, a, b);
    p->given[qc_union_root(p->class_of, a)] = x ? x : y;
}

/* Joins constants that the template quantizes with the qparams of the result to the result's class. */
static void unite_constants(struct qc_partition *p, const struct qc_match *m, const struct qc_expr *e,
                            const struct qc_uses *uses)
{
    const qc_id v = e->kind == QC_EXPR_OP && e->op == QC_OP_Quantize && e->args[0]->kind == QC_EXPR_CAPTURE
                        ? m->values[e->args[0]->slot]
                        : 0;
    if (v && !e->qparams.product && e->qparams.first == m->rule->give->qparams.first && qc_constant_of(p->graph, v) &&
        qc_all_uses(uses, v).count == 1)
        join_quantizers(p, v, m->root);
    for (unsigned i = 0; e->kind == QC_EXPR_OP && i < e->arg_count; i++) unite_constants(p, m, e->args[i], uses);
}

/* Finds caches with a type of their own: they stay apart from the values that they are joined of, since a step must not
   round what earlier steps rounded. Fails if the option names a type and there is no cache. */
static bool find_caches(struct qc_partition *p, const struct qc_uses *uses, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    struct qc_cache c;
    if (p->options.cache == QC_NONE) return true;
    for (size_t i = 0; i < g->input_count; i++) {
        if (!qc_is_quantizable(g, g->inputs[i].value) || !qc_cache_of(&c, uses, g->inputs[i].value) ||
            !uses->output_count[c.joins->outputs])
            continue;
        p->cached[c.joins->outputs] = 2 + qc_cache_heads(g, &c);
        p->cache_count++;
    }
    return p->cache_count || p->options.part ||
           qc_fail(st, QC_USAGE, "--kv-type: the model has no cache: no input that a Concat extends to an output");
}

static bool find_classes(struct qc_partition *p, const struct qc_rules *rules, const struct qc_uses *uses,
                         struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    const bool *apart = qc_joins_apart(g, rules, &p->matches, false, p->arena, st);
    if (!apart) return false;
    qc_union_start(p->class_of, g->value_count + 1);
    for (qc_id v = 1; v <= g->value_count; v++) p->given[v] = qc_given_of_value(p->options.given, g, v);
    QC_EACH_NODE(n, g) {
        const qc_id stored_as = p->matches.at[n->id] ? qc_partition_stored_as(p->matches.at[n->id]) : 0;
        if (stored_as) join_quantizers(p, stored_as, p->matches.at[n->id]->root);
        if (stored_as && !qc_partition_covers(p->matches.at[n->id]))
            unite_constants(p, p->matches.at[n->id], p->matches.at[n->id]->rule->give, uses);
        enum qc_affine_behaviour b = qc_rules_behaviour(rules, g, n);
        if (!p->matches.live[n->id] || p->matches.at[n->id] || b == QC_AFFINE_NONE ||
            !qc_is_quantizable(g, n->outputs) || p->cached[n->outputs])
            continue;
        if (apart[n->id] && !p->options.one_scale_joins) {
            p->reason[n->id] = n->op == QC_OP_Pad ? "pads with a number that only float ops read"
                                                  : "joins results for an output, each with a scale of its own";
            continue;
        }
        unsigned inputs = b == QC_AFFINE_JOIN ? n->input_count : 1;
        for (unsigned i = 0; i < inputs; i++) {
            if (!qc_is_quantizable(g, n->inputs[i])) continue;
            if (b != QC_AFFINE_KEEP && qc_all_uses(uses, n->inputs[i]).count != 1) continue;
            for (unsigned k = 0; k < n->output_count; k++) join_quantizers(p, n->inputs[i], n->outputs + k);
        }
    }
    for (qc_id v = 1; v <= g->value_count; v++) p->class_of[v] = qc_union_root(p->class_of, v);
    return true;
}

static void request(void *user, qc_id v)
{
    struct qc_partition *p = user;
    if (!qc_constant_of(p->graph, v)) p->requested[v] = true;
}

struct join {
    const struct qc_partition *p;
    const bool *quantized;
    bool ok, of_model; /* of_model: the inputs that are not quantized are all inputs of the model */
};

static void check_join(void *user, qc_id v)
{
    struct join *j = user;
    if (qc_constant_of(j->p->graph, v) || j->quantized[v]) return;
    j->of_model = (j->ok || j->of_model) && !qc_node_of(j->p->graph, v);
    j->ok = false;
}

static bool stores_result(const struct qc_partition *p, const struct qc_match *m)
{
    const bool as_float = p->options.target->float_results && p->options.prefer != QC_PREFER_INTEGERS;
    return m->rule->result_quantized && !as_float && !qc_types_small_floats(p, m);
}

bool qc_partition_stores(const struct qc_partition *p, const struct qc_match *m)
{
    return stores_result(p, m) || (m->rule->give->op == QC_OP_Dequantize && !m->rule->give->qparams.product);
}

/* In topological order, drops patterns that only join quantized values if a data input is not quantized. */
static bool drop_loose_joins(struct qc_partition *p, const struct qc_rules *rules, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    bool *quantized = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st);
    const bool *apart = qc_joins_apart(g, rules, &p->matches, true, p->arena, st);
    if (!quantized || !apart) return false;
    for (qc_id id = 1; id <= g->node_count; id++)
        if (p->matches.at[id] && !p->matches.at[id]->rule->joins && !p->weights_only[id])
            each_quantized(p->matches.at[id]->rule->give, p->matches.at[id], request, p);
    /* Drop patterns that quantize a table alone if their result is stored: the table is then stored too, and no float
       op reads it. */
    memcpy(quantized, p->requested, g->value_count + 1);
    QC_EACH_NODE_BACK(n, g) {
        if (p->matches.at[n->id] && quantized[n->outputs] && qc_types_is_table(p, p->matches.at[n->id]))
            partition_drop(p, n->id);
        if (p->matches.at[n->id] || qc_rules_behaviour(rules, g, n) != QC_AFFINE_KEEP) continue;
        for (unsigned k = 0; k < n->output_count; k++) quantized[n->inputs[0]] |= quantized[n->outputs + k];
    }
    memcpy(quantized, p->requested, g->value_count + 1);
    QC_EACH_NODE(n, g) {
        struct qc_match *m = p->matches.at[n->id];
        if (m && m->rule->joins) {
            struct join j = {.p = p, .quantized = quantized, .ok = true};
            each_quantized(m->rule->give, m, check_join, &j);
            if (!j.ok) {
                partition_drop(p, n->id);
                m = NULL;
                p->reason[n->id] = j.of_model ? "it reads an input of the model that nothing else reads in integers"
                                              : "an input comes from a float op";
            }
        }
        bool passes = false;
        const bool kept_apart = (apart[n->id] && !p->options.one_scale_joins) || p->cached[n->outputs];
        if (!m && !kept_apart && qc_rules_behaviour(rules, g, n) != QC_AFFINE_NONE) {
            unsigned inputs = qc_node_affine(n) == QC_AFFINE_JOIN ? n->input_count : 1, stored = 0, constants = 0;
            for (unsigned i = 0; i < inputs; i++) {
                stored += quantized[n->inputs[i]];
                constants += qc_constant_of(g, n->inputs[i]) != NULL;
            }
            passes =
                stored && stored + constants == inputs; /* ops on constants alone (an embedding) do not quantize more */
        }
        for (unsigned k = 0; k < n->output_count; k++)
            if (passes || (m && (m->rule->give->op == QC_OP_Dequantize || stores_result(p, m))))
                quantized[n->outputs + k] = true;
    }
    return true;
}

/* Leaves matches in float that are faster so by estimated times. */
static bool place(struct finder *f, const struct qc_rules *rules, const struct qc_uses *uses, struct qc_status *st)
{
    struct qc_partition *p = f->p;
    const struct qc_partition_options *o = &p->options;
    const bool *real = NULL, *fixed = NULL;
    bool ort = false; /* The tables of times (rewrite/passes/operator_times.h) are of this target. */
    for (unsigned i = 0; i < rules->target_count; i++) ort = ort || strcmp(rules->targets[i], "ort") == 0;
    if (!ort || o->target->openvino || o->simulates_hardware) return true;
    if (!qc_costs_find_fixed(&fixed, p, st) || !fixed) return st->code == QC_OK;
    struct qc_graph sized = *p->graph; /* with the shapes of the options; it borrows all but its values */
    struct qc_uses uses_of_sized = *uses;
    if (!find_classes(p, rules, uses, st)) return false;
    if (o->shapes &&
        !(sized.values = qc_arena_dup(p->arena, sized.values, sized.value_count + 1, sizeof *sized.values, st)))
        return false;
    for (qc_id v = 1; o->shapes && v <= sized.value_count; v++) sized.values[v].type.shape = o->shapes[v];
    uses_of_sized.graph = &sized;
    if (!qc_place_by_time(&real, p, fixed, &uses_of_sized, st)) return false;
    const char *reason =
        qc_arena_printf(p->arena, st, QC_FASTER_IN_FLOAT "together %.0f us less, estimated", p->placed_gain);
    if (!reason || !real) return st->code == QC_OK;
    for (qc_id id = 1; id <= p->graph->node_count; id++) {
        if (!real[id]) continue;
        p->reason[id] = reason;
        if (!qc_types_store_weight(p, p->matches.at[id], false, reason, st)) return false;
        p->cost_count++;
        p->placed_count++;
        partition_drop(p, id);
    }
    memset(p->requested, 0, p->graph->value_count + 1);
    return drop_loose_joins(p, rules, st);
}

/* Returns the constant that is the weight of a match, or the table; 0: none. */
static qc_id weight_of_match(const struct qc_partition *p, const struct qc_match *m)
{
    const struct qc_graph *g = p->graph;
    for (unsigned i = 0; i < m->node_count; i++) {
        const struct qc_node *n = &g->nodes[m->nodes[i]];
        const unsigned at = n->op == QC_OP_Gather ? 0 : 1;
        if ((n->op == QC_OP_Gather || qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT) &&
            qc_constant_of(g, n->inputs[at]))
            return n->inputs[at];
    }
    return 0;
}

/* Leaves matches in float whose weights the model computes from fewer bytes than their integers take, if the file would
   be larger than the model, and others have weights. */
static bool drop_computed_weights(struct finder *f, const struct qc_rules *rules, struct qc_status *st)
{
    struct qc_partition *p = f->p;
    const struct qc_graph *g = p->graph;
    bool *stored = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st), others = false, any = false;
    const bool *fixed;
    size_t bytes = 0;
    if (!stored || !qc_costs_find_fixed(&fixed, p, st)) return false;
    for (qc_id id = 1; fixed && id <= g->node_count; id++)
        if (p->matches.at[id]) stored[weight_of_match(p, p->matches.at[id])] = true;
    for (qc_id v = 1; fixed && v <= g->value_count; v++) {
        const struct qc_tensor *t = qc_constant_of(g, v);
        const bool computed = t && t->made_from && t->made_from < t->count;
        if (t) bytes += stored[v] ? t->count : computed ? t->made_from : t->bytes;
        stored[v] = stored[v] && computed;
        any = any || stored[v];
    }
    if (!any || bytes <= g->budget.model_bytes) return true;
    stored[0] = false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const qc_id w = p->matches.at[id] ? weight_of_match(p, p->matches.at[id]) : 0;
        others = others || (w && !stored[w]);
    }
    for (qc_id id = 1; others && id <= g->node_count; id++) {
        const struct qc_match *m = p->matches.at[id];
        if (!m || fixed[id] || !stored[weight_of_match(p, m)]) continue;
        p->reason[id] = "the model computes its weight from fewer bytes than its integers would take";
        partition_drop(p, id);
    }
    if (!others) return true;
    memset(p->requested, 0, g->value_count + 1);
    return drop_loose_joins(p, rules, st);
}

static void find_requests(struct qc_partition *p, const struct qc_uses *uses)
{
    const struct qc_graph *g = p->graph;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_match *m = p->matches.at[id];
        if (!m || p->weights_only[id]) continue;
        each_quantized(m->rule->give, m, request, p);
        if (!stores_result(p, m)) continue;
        /* If the only user of a value is a clamp of its class, the clamp's result is quantized instead. */
        qc_id v = m->root;
        for (qc_id user; (user = qc_only_reader(uses, v)) && !p->matches.at[user] &&
                         qc_node_affine(&g->nodes[user]) == QC_AFFINE_BOUND &&
                         p->class_of[g->nodes[user].outputs] == p->class_of[v];)
            v = g->nodes[user].outputs;
        p->requested[v] = true;
    }
    for (qc_id v = 1; v <= g->value_count; v++)
        if (qc_given_of_value(p->options.given, g, v)) request(p, v);
    for (size_t i = 0; i < g->input_count + g->output_count; i++) {
        const struct qc_port *port = i < g->input_count ? &g->inputs[i] : &g->outputs[i - g->input_count];
        bool stored = false;
        for (size_t k = 0; k < p->options.stored_count; k++)
            stored = stored || strcmp(p->options.stored[k], port->name) == 0;
        if (stored && g->values[port->value].type.dtype == QC_F32) request(p, port->value);
    }
}

/* Least number of elements of a table that the report mentions. */
enum { LARGE = 4096 };

/* Notes in p->reason why tables stay in float, and their size. Warns if --skip names an operator whose inputs and
   result are stored for the operators around it: the file has it between the same DequantizeLinear and QuantizeLinear
   as without the option. */
static bool note_stored(struct finder *f, struct qc_status *st)
{
    struct qc_partition *p = f->p;
    const struct qc_graph *g = p->graph;
    char label[QC_LABEL];
    bool *stored = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st); /* by class */
    if (!stored) return false;
    for (qc_id v = 1; v <= g->value_count; v++) stored[p->class_of[v]] |= p->requested[v];
    QC_EACH_NODE(n, g) {
        if (p->matches.at[n->id]) continue;
        const struct qc_tensor *t = n->op == QC_OP_Gather ? qc_constant_of(g, n->inputs[0]) : NULL;
        bool all = stored[p->class_of[n->outputs]];
        if (t && t->dtype == QC_F32 && t->count >= LARGE && !all)
            p->reason[n->id] =
                qc_arena_printf(p->arena, st, "%s; its table takes %.2f MB",
                                p->reason[n->id]
                                    ? p->reason[n->id]
                                    : "tables of sines, and of rows shorter than 16 elements, are not quantized",
                                (double)t->bytes / 1e6);
        all = all && f->skipped_join[n->id];
        for (unsigned i = 0; all && i < n->input_count; i++)
            all = !qc_is_quantizable(g, n->inputs[i]) || qc_constant_of(g, n->inputs[i]) ||
                  stored[p->class_of[n->inputs[i]]];
        if (all)
            qc_lines_add(
                &p->warnings, p->arena, st,
                "--skip does not change how '%s' (%s) is computed: the operators around it store its input and "
                "its result; --skip them too",
                qc_node_label(label, g, n), qc_op_info(n->op)->name);
    }
    return st->code == QC_OK;
}

static bool same_clause(const struct qc_scheme_clause *a, const struct qc_scheme_clause *b)
{
    return a->dtype == b->dtype && a->bits == b->bits && a->symmetry_given == b->symmetry_given &&
           (!a->symmetry_given || a->symmetry == b->symmetry) && a->restricted_given == b->restricted_given &&
           (!a->restricted_given || a->restricted == b->restricted) && a->per_channel_given == b->per_channel_given &&
           (!a->per_channel_given || a->per_channel == b->per_channel);
}

static const char *source_text(struct qc_partition *p, const struct qc_scheme_source *s, struct qc_status *st)
{
    return s->node ? qc_arena_printf(p->arena, st, "node '%s'", s->node)
                   : qc_arena_printf(p->arena, st, "pattern '%s'", s->rule->name);
}

static bool set_scheme(struct qc_partition *p, const struct qc_scheme_source *source, qc_id v, bool weight,
                       struct qc_status *st)
{
    const struct qc_scheme_source **known = &p->scheme_of[weight ? v : p->class_of[v]];
    const struct qc_scheme_clause *clause = weight ? &source->weight : &source->activation;
    if (clause->dtype == QC_NONE && !clause->symmetry_given && !clause->restricted_given && !clause->per_channel_given)
        return true;
    if (!*known) *known = source;
    if (same_clause(weight ? &(*known)->weight : &(*known)->activation, clause)) return true;
    const char *one = source_text(p, *known, st), *two = source_text(p, source, st);
    return one && two &&
           qc_lines_add(&p->warnings, p->arena, st, "'%s': %s and %s want different schemes; that of %s holds",
                        QC_VALUE_LABEL(p->graph, v), one, two, one);
}

/* Sets the schemes of the captures that the template quantizes; weights have channels. */
static bool set_schemes(struct qc_partition *p, const struct qc_expr *e, const struct qc_match *m,
                        const struct qc_scheme_source *source, struct qc_status *st)
{
    const qc_id v = qc_template_quantizes(m, e);
    if (v) {
        if (e->qparams.product) return true;
        return set_scheme(p, source, v, qc_constant_of(p->graph, v) && e->qparams.axis_kind != QC_AXIS_TENSOR, st);
    }
    for (unsigned i = 0; i < e->arg_count; i++)
        if (!set_schemes(p, e->args[i], m, source, st)) return false;
    return true;
}

static bool find_schemes(struct qc_partition *p, struct qc_status *st)
{
    for (qc_id id = 1; id <= p->graph->node_count; id++) {
        const struct qc_match *m = p->matches.at[id];
        if (!m) continue;
        const struct qc_scheme_source *source = qc_scheme_source_of(p, m, st);
        const struct qc_expr *inner = m->rule->give->args[0];
        const bool makes_quantizer = /* of the result */
            stores_result(p, m) || (inner->kind == QC_EXPR_OP &&
                                    (inner->op == QC_OP_Quantize || qc_op_info(inner->op)->affine == QC_AFFINE_MERGE));
        if (!source || !set_schemes(p, m->rule->give, m, source, st) ||
            (makes_quantizer && !set_scheme(p, source, m->root, false, st)))
            return false;
    }
    return true;
}

struct qc_type_scheme qc_partition_scheme(const struct qc_partition *p, qc_id v, bool weight)
{
    struct qc_type_scheme s = weight ? p->options.weight : p->options.activation;
    const struct qc_scheme_source *source = p->scheme_of[v];
    if (weight && !source && p->weight_type[v]) {
        s.dtype = p->weight_type[v]->dtype;
        s.bits = p->weight_type[v]->bits;
    }
    if (!source) return s;
    const struct qc_scheme_clause *c = weight ? &source->weight : &source->activation;
    if (c->dtype != QC_NONE) {
        s.dtype = c->dtype;
        s.bits = c->bits;
    }
    if (c->symmetry_given) s.symmetry = c->symmetry;
    if (c->restricted_given) s.restricted = c->restricted;
    if (c->per_channel_given) s.per_channel = c->per_channel;
    return s;
}

bool qc_partition_new(struct qc_partition **out, const struct qc_graph *g, const struct qc_rules *rules,
                      const struct qc_partition_options *options, struct qc_status *st)
{
    struct qc_partition *p;
    if (!QC_NEW_OWNER(p, st)) return false;
    p->graph = g;
    p->options = *options;
    if (!p->options.target) p->options.target = &qc_target_plain;
    struct finder f = {.p = p,
                       .status = QC_STATUS_INIT,
                       .asked = *options,
                       .skip_used = QC_NEW_ARRAY(p->arena, bool, options->skip_count, st),
                       .skipped_join = QC_NEW_ARRAY(p->arena, bool, g->node_count + 1, st)};
    p->class_of = QC_NEW_ARRAY(p->arena, qc_id, g->value_count + 1, st);
    p->cached = QC_NEW_ARRAY(p->arena, int, g->value_count + 1, st);
    p->requested = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st);
    p->given = QC_NEW_ARRAY(p->arena, const struct qc_given *, g->value_count + 1, st);
    p->reason = QC_NEW_ARRAY(p->arena, const char *, g->node_count + 1, st);
    p->scheme_of = QC_NEW_ARRAY(p->arena, const struct qc_scheme_source *, g->value_count + 1, st);
    p->weight_of = QC_NEW_ARRAY(p->arena, qc_id, g->node_count + 1, st);
    p->weights_only = QC_NEW_ARRAY(p->arena, bool, g->node_count + 1, st);
    p->block_axis = QC_NEW_ARRAY(p->arena, int, g->value_count + 1, st);
    p->real_product = QC_NEW_ARRAY(p->arena, bool, g->node_count + 1, st);
    p->weight_type = QC_NEW_ARRAY(p->arena, const struct qc_type_choice *, g->value_count + 1, st);
    p->dynamic = QC_NEW_ARRAY(p->arena, bool, g->node_count + 1, st);
    p->input_format = QC_NEW_ARRAY(p->arena, const struct qc_number_format *, g->node_count + 1, st);
    p->weight_axis = QC_NEW_ARRAY(p->arena, int, g->node_count + 1, st);
    p->at_load = QC_NEW_ARRAY(p->arena, bool, g->value_count + 1, st);
    p->channel_axis = QC_NEW_ARRAY(p->arena, int, g->value_count + 1, st);
    p->one_scale = QC_NEW_ARRAY(p->arena, const char *, g->value_count + 1, st);
    f.types_used.activation = QC_NEW_ARRAY(p->arena, bool, options->activation_type_count, st);
    f.types_used.weight = QC_NEW_ARRAY(p->arena, bool, options->weight_type_count, st);
    struct qc_uses uses;
    f.asked.skip_count = options->asked_skips;
    bool ok = st->code == QC_OK && check_refused(g, rules, st) && qc_uses_of(&uses, g, p->arena, st) &&
              qc_types_find_slight(p, st) && qc_types_find_edges(p, st) && qc_types_find_logarithms(p, st) &&
              find_islands(&f, rules, st) && qc_costs_find(&f.cost, g, rules, options, p->arena, st) &&
              qc_matches_find(&p->matches, g, rules, QC_RULE_PATTERN, accept, &f, p->arena, st) &&
              (f.status.code == QC_OK || qc_fail(st, f.status.code, "%s", f.status.message)) &&
              find_caches(p, &uses, st) && qc_partition_check_names(p, rules, f.skip_used, &f.types_used, st) &&
              drop_loose_joins(p, rules, st) && drop_computed_weights(&f, rules, st) && place(&f, rules, &uses, st);
    if (ok) qc_types_keep_shared(p, &uses);
    ok = ok && find_classes(p, rules, &uses, st);
    if (ok) find_requests(p, &uses);
    ok = ok && note_stored(&f, st) && find_schemes(p, st) && qc_partition_channels(p, rules, st);
    return QC_HAND_OVER(ok, out, p, qc_partition_free);
}

void qc_partition_free(struct qc_partition *p)
{
    if (!p) return;
    qc_arena_free(p->arena);
    free(p);
}

char *qc_partition_print(const struct qc_partition *p, struct qc_status *st)
{
    char *text = NULL, label[QC_LABEL];
    size_t size;
    FILE *f = open_memstream(&text, &size);
    const struct qc_graph *g = p->graph;
    if (!f) {
        qc_fail_memory(st, 1);
        return NULL;
    }
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_match *m = p->matches.at[id];
        if (!m) {
            if (p->matches.live[id] && p->reason[id])
                qc_print(f, "float %s '%s': %s\n", qc_op_info(g->nodes[id].op)->name,
                         qc_value_label(label, g, g->nodes[id].outputs), p->reason[id]);
            continue;
        }
        qc_print(f, "match %s:", m->rule->name);
        for (unsigned i = 0; i < m->node_count; i++)
            qc_print(f, "%s %s '%s'", i ? "," : "", qc_op_info(g->nodes[m->nodes[i]].op)->name,
                     qc_value_label(label, g, g->nodes[m->nodes[i]].outputs));
        fputc('\n', f);
    }
    for (qc_id v = 1; v <= g->value_count; v++)
        if (p->requested[v]) qc_print(f, "quantize '%s'\n", qc_value_label(label, g, v));
    for (qc_id v = 1; v <= g->value_count; v++)
        if (p->scheme_of[v])
            qc_print(f, "scheme of '%s': %s %s\n", qc_value_label(label, g, v),
                     p->scheme_of[v]->node ? "node" : "pattern",
                     p->scheme_of[v]->node ? p->scheme_of[v]->node : p->scheme_of[v]->rule->name);
    for (qc_id v = 1; v <= g->value_count; v++)
        if (p->channel_axis[v] >= 0)
            qc_print(f, "per channel '%s' axis %d\n", qc_value_label(label, g, v), p->channel_axis[v]);
    for (qc_id v = 1; v <= g->value_count; v++)
        if (p->one_scale[v]) qc_print(f, "one scale '%s': %s\n", qc_value_label(label, g, v), p->one_scale[v]);
    for (size_t i = 0; i < p->warnings.count; i++) qc_print(f, "warning %s\n", p->warnings.lines[i]);
    if (fclose(f) != 0) {
        free(text);
        qc_fail_memory(st, size);
        return NULL;
    }
    return text;
}
