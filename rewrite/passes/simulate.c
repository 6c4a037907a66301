// SPDX-License-Identifier: Apache-2.0
#include "rewrite/passes/simulate.h"

#include <math.h>

#include "graph/core/data_sizes.h"
#include "graph/core/pair_order.h"
#include "graph/core/recurrent.h"
#include "graph/core/uses.h"
#include "graph/types/number_format.h"
#include "rewrite/passes/fillers.h"
#include "rewrite/passes/partition.h"

static void mark_ops(bool *named, const struct qc_expr *e)
{
    for (unsigned i = 0; e->kind == QC_EXPR_OP && i < e->op_count; i++) named[e->ops[i]] = true;
    for (unsigned i = 0; i < e->arg_count; i++)
        if (e->args[i]) mark_ops(named, e->args[i]);
}

bool qc_observable_values(size_t *count, qc_id **values, const struct qc_graph *g, const struct qc_rules *rules,
                          struct qc_arena *a, struct qc_status *st)
{
    bool *named = QC_NEW_ARRAY(a, bool, QC_OP_COUNT, st), *hidden = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    uint32_t *uses = qc_graph_uses(g, a, st);
    *values = QC_NEW_ARRAY(a, qc_id, g->value_count, st);
    *count = 0;
    const bool *apart = qc_joins_apart(g, rules, NULL, false, a, st), *chosen = qc_read_by_extremes(g, NULL, a, st),
               *sized = qc_sized_by_data(g, a, st);
    if (st->code != QC_OK) return false;
    for (size_t i = 0; i < rules->count; i++)
        if (rules->rules[i].kind == QC_RULE_PATTERN) mark_ops(named, rules->rules[i].match);
    /* Values of a node in no match that another value of their class covers. Inputs of a join that is apart may have
       classes of their own. */
    QC_EACH_NODE(n, g) {
        if (named[n->op] || !n->input_count || !qc_is_quantizable(g, n->outputs) || !qc_is_quantizable(g, n->inputs[0]))
            continue;
        const enum qc_affine_behaviour b = qc_rules_behaviour(rules, g, n);
        if (b == QC_AFFINE_KEEP && n->op != QC_OP_Pad) /* a Pad may add another number */
            for (unsigned k = 0; k < n->output_count; k++) hidden[n->outputs + k] = true;
        const unsigned covered = apart[n->id] ? 0 : b == QC_AFFINE_JOIN ? n->input_count : b == QC_AFFINE_BOUND ? 1 : 0;
        for (unsigned i = 0; i < covered; i++)
            if (qc_is_quantizable(g, n->inputs[i]) && uses[n->inputs[i]] == 1) hidden[n->inputs[i]] = true;
    }
    QC_EACH_NODE(n, g) /* a quantizer may have the range of what a maximum chooses */
        for (unsigned i = 0; qc_is_extreme(n->op) && i < n->input_count; i++)
            if (chosen[n->inputs[i]]) hidden[n->outputs] = false;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (qc_is_quantizable(g, v) && g->values[v].kind != QC_VALUE_CONSTANT && g->values[v].name &&
            (!hidden[v] || sized[v])) /* such a value may never have an element */
            (*values)[(*count)++] = v;
    return true;
}

enum { REDUCED_BITS = 7 };

/* Returns the quantizer of a weight that a node reads, as integers or dequantized; 0: none. In front of an LSTM of two
   directions there is also a Reshape, which keeps the rows. */
static qc_id quantizer_of_weight(const struct qc_graph *g, qc_id value)
{
    const struct qc_node *n = qc_node_of(g, value);
    if (n && n->op == QC_OP_Reshape) n = qc_node_of(g, value = n->inputs[0]);
    if (n && n->op == QC_OP_Dequantize) value = n->inputs[0];
    const qc_id q = g->values[value].type.qparams;
    return q && g->qparams_of[q].kind == QC_QPARAMS_QUANTIZER && g->qparams_of[q].is_weight ? q : 0;
}

static void limit(struct qc_graph *g, qc_id quantizer, int32_t sum, enum qc_overflow_fix fix)
{
    struct qc_qparams *q = &g->qparams_of[quantizer];
    if (!quantizer || !sum || q->dtype != QC_I8 || q->symmetry != QC_SYMMETRIC || q->given || q->block ||
        q->power_of_two || 2 * -qc_qparams_levels(q).lo <= sum)
        return;
    if (fix == QC_OVERFLOW_FIX_REDUCE_RANGE)
        q->bits = REDUCED_BITS;
    else if (!q->pair_limit || sum < q->pair_limit)
        q->pair_limit = sum;
}

/* Returns the limit on pairs for the activations of a product; 0: no integer kernel computes it. */
static int32_t limit_of_data(const struct qc_graph *g, qc_id value, bool dynamic)
{
    const qc_id q = g->values[value].type.qparams;
    if (!q) return dynamic ? qc_pair_limit(QC_U8, qc_levels_of(QC_U8, false).hi) : 0;
    return qc_pair_limit(g->qparams_of[q].dtype, qc_qparams_levels(&g->qparams_of[q]).hi);
}

/* Sets qparams.pair_limit of int8 weights that a kernel adds in pairs (o->overflow_fix PAIRS), or gives them 7 bits
   (REDUCE_RANGE). g: simulated, with unbound weight quantizers. Unchanged are weights with given parameters, weights in
   blocks, and asymmetric weights, whose pairs no scale could limit. */
static void limit_pairs(struct qc_graph *g, const struct qc_partition_options *o)
{
    bool dynamic = o->dynamic;
    struct qc_pair_order order;
    if (o->overflow_fix == QC_OVERFLOW_FIX_OFF) return;
    for (size_t i = 0; i < o->activation_type_count; i++) dynamic = dynamic || o->activation_types[i].dynamic;
    QC_EACH_NODE(n, g) {
        if (qc_pair_order_of(&order, g, n)) {
            /* The last of an odd number of channels is paired with padding or with the next position's first. */
            const bool odd = order.run % 2 && order.run > 1 && order.run < order.count;
            limit(g, quantizer_of_weight(g, n->inputs[1]), limit_of_data(g, n->inputs[0], dynamic),
                  o->target->pads_channels && odd ? QC_OVERFLOW_FIX_REDUCE_RANGE : o->overflow_fix);
        }
        if (!qc_is_recurrent(n->op) || !dynamic || !o->qoperator) continue;
        for (unsigned i = QC_RECURRENT_W; i <= QC_RECURRENT_R; i++)
            limit(g, quantizer_of_weight(g, n->inputs[i]), limit_of_data(g, n->inputs[0], true), o->overflow_fix);
    }
}

struct simulation {
    const struct qc_partition *p;
    struct qc_rebuild *r;
    qc_id *quantizer;   /* [value_count + 1] by class representative: the qparams, 0 until made */
    qc_id *cached;      /* [value_count + 1]: the new value of a cache in its own type, dequantized; 0: none */
    qc_id *computed;    /* [value_count + 1]: the new value before it is quantized */
    bool *hidden;       /* [value_count + 1]: covered by another value of its class */
    const bool *chosen; /* [value_count + 1]: covered by the results of the maxima that read it */
    struct qc_uses uses;
    qc_id *next;       /* [value_count + 1]: the next value of the same class, which begins with its representative */
    int *constant_use; /* [value_count + 1]: the first use of a constant (below); its quantizer has the constant's plain
                          name */
};

/* Uses of a constant that need separate quantizers: quantized like an activation, per tensor, in blocks, or along an
   axis. */
enum { USE_DATA = 1, USE_TENSOR = 2, USE_BLOCKS = 3, USE_AXIS = 4 };

/* Returns true if the input of a node that moves elements does not cover its results: a Pad adds a number (infinities
   have no level in any case), or the maximum of values with fillers is observed in their place. */
static bool changes_range(const struct simulation *s, const struct qc_node *n)
{
    const struct qc_graph *g = s->p->graph;
    if (qc_is_extreme(n->op) && s->chosen[n->inputs[0]]) return true;
    const struct qc_tensor *t = qc_pads_with_value(g, n) ? qc_constant_of(g, n->inputs[2]) : NULL;
    return qc_pads_with_value(g, n) && (!t || isfinite(qc_tensor_float(t, 0)));
}

/* Covered values are not observed: see rewrite/passes/partition.h. */
static void find_hidden(struct simulation *s)
{
    const struct qc_graph *g = s->p->graph;
    QC_EACH_NODE(n, g) {
        const qc_id stored_as = s->p->matches.at[n->id] ? qc_partition_stored_as(s->p->matches.at[n->id]) : 0;
        if (stored_as && qc_all_uses(&s->uses, stored_as).count == 1 && qc_partition_covers(s->p->matches.at[n->id]))
            s->hidden[stored_as] = true;
        if (!s->p->matches.live[n->id] || s->p->matches.at[n->id]) continue;
        switch (qc_node_affine(n)) {
        case QC_AFFINE_KEEP:
            for (unsigned k = 0; k < n->output_count && !changes_range(s, n); k++)
                if (s->p->class_of[n->outputs + k] == s->p->class_of[n->inputs[0]]) s->hidden[n->outputs + k] = true;
            break;
        case QC_AFFINE_BOUND:
        case QC_AFFINE_JOIN:
            for (unsigned i = 0; i < n->input_count; i++)
                if (n->inputs[i] && s->p->class_of[n->inputs[i]] == s->p->class_of[n->outputs])
                    s->hidden[n->inputs[i]] = true;
            break;
        case QC_AFFINE_NONE:
        case QC_AFFINE_MERGE:
        case QC_AFFINE_PRODUCT: break;
        }
    }
    for (qc_id v = 1; v <= g->value_count; v++) s->hidden[v] = s->hidden[v] || s->chosen[v];
}

/* Returns the whole name, which identifies the quantizer. */
static const char *whole_name(char buf[QC_LABEL], const struct qc_graph *g, qc_id v)
{
    return g->values[v].name ? g->values[v].name : qc_value_label(buf, g, v);
}

/* Takes parameters that the model has already. */
static void take_given(struct qc_qparams *def, const struct qc_given *given)
{
    if (!given) return;
    def->dtype = given->dtype;
    def->symmetry = QC_SYMMETRIC;
    for (size_t i = 0; i < given->count; i++)
        if (given->zero_point[i]) def->symmetry = QC_ASYMMETRIC;
    def->restricted = def->power_of_two = false;
    def->per_channel = given->count > 1;
    def->given = given;
}

/* Returns the qparams of an activation of a class. */
static struct qc_qparams of_class(const struct simulation *s, qc_id class, const char *name)
{
    const struct qc_type_scheme a = qc_partition_scheme(s->p, class, false);
    return (struct qc_qparams){.name = name,
                               .dtype = a.dtype,
                               .symmetry = qc_is_small_float(a.dtype) ? QC_SYMMETRIC : a.symmetry,
                               .restricted = a.restricted,
                               .power_of_two = s->p->options.target->power_of_two};
}

static qc_id quantizer_of(struct simulation *s, qc_id value, struct qc_status *st)
{
    qc_id class = s->p->class_of[value];
    char name[QC_LABEL];
    if (s->quantizer[class]) return s->quantizer[class];
    qc_id named = class; /* the first observed activation of the class */
    for (qc_id v = class; v; v = s->next[v]) {
        if (s->hidden[v]) continue;
        named = v;
        if (!qc_constant_of(s->p->graph, v)) break;
    }
    struct qc_qparams def = of_class(s, class, whole_name(name, s->p->graph, named));
    def.per_channel = s->p->channel_axis[value] >= 0;
    take_given(&def, s->p->given[class]);
    return s->quantizer[class] = qc_graph_add_quantizer(s->r->to, &def, st);
}

/* A matrix that is used both directly and transposed has channels along different axes, and hence two quantizers. */
static const char *constant_name(struct simulation *s, qc_id constant, int use, struct qc_status *st)
{
    struct qc_arena *a = s->r->to->arena;
    char label[QC_LABEL];
    const char *name = whole_name(label, s->p->graph, constant);
    if (!s->constant_use[constant]) s->constant_use[constant] = use;
    if (s->constant_use[constant] == use) return qc_arena_strdup(a, name, st);
    if (use >= USE_AXIS) return qc_arena_printf(a, st, "%s per %d", name, use - USE_AXIS);
    if (use == USE_BLOCKS) return qc_arena_printf(a, st, "%s in blocks", name);
    return qc_arena_printf(a, st, use == USE_DATA ? "%s as data" : "%s per tensor", name);
}

/* Returns the axis of the blocks of a weight. */
static int block_axis(void *user, qc_id weight)
{
    const struct simulation *s = user;
    return s->p->block_axis[weight] - 1;
}

static qc_id weight_quantizer(struct simulation *s, qc_id weight, int axis, struct qc_status *st)
{
    const struct qc_type_scheme w = qc_partition_scheme(s->p, weight, true);
    const struct qc_tensor *t = qc_constant_of(s->p->graph, weight);
    const struct qc_given *given = qc_given_of_weight(s->p->options.given, t);
    if (given && given->count > 1 && given->axis != axis) given = NULL;
    const bool per_channel = given ? given->count > 1 : w.per_channel;
    const bool blocks = !given && s->p->block_axis[weight];
    const struct qc_number_format *format = blocks && w.format && w.dtype == w.format->dtype ? w.format : NULL;
    const bool small = format || qc_is_small_float(w.dtype);
    const struct qc_shape *shape = &qc_value(s->p->graph, weight)->type.shape;
    if (per_channel && !blocks && axis >= shape->rank)
        return qc_fail(st, QC_BAD_INPUT, "a pattern quantizes '%s' of shape %s per %d, an axis that it does not have",
                       whole_name((char[QC_LABEL]){0}, s->p->graph, weight), QC_SHAPE_STR(shape), axis);
    const bool zeros = blocks && s->p->options.few_have_zeros && (w.bits ? w.bits : qc_dtype_info(w.dtype)->bits) < 8;
    const int use = blocks ? USE_BLOCKS : per_channel ? USE_AXIS + axis : USE_TENSOR;
    struct qc_qparams def = {.name = constant_name(s, weight, use, st),
                             .dtype = w.dtype,
                             .symmetry = small   ? QC_SYMMETRIC
                                         : zeros ? QC_ASYMMETRIC
                                                 : w.symmetry,
                             .power_of_two = s->p->options.target->power_of_two,
                             .restricted = blocks ? s->p->options.blocks_restricted : w.restricted,
                             .per_channel = w.per_channel || blocks,
                             .bits = w.bits,
                             .at_load = s->p->at_load[weight],
                             .format = format,
                             .block = blocks ? s->p->options.weight_block : 0,
                             .is_weight = true};
    take_given(&def, given);
    return st->code == QC_OK ? qc_graph_add_quantizer(s->r->to, &def, st) : 0;
}

/* Returns the quantizer that a name of qparams means: that of the value that the template quantizes to this name. A
   product has the quantizers of its factors. taker: the op that e is an argument of. */
static qc_id qparams_by_name(struct simulation *s, const struct qc_match *m, const struct qc_expr *e,
                             const struct qc_expr *taker, unsigned name, struct qc_status *st)
{
    const struct qc_graph *g = s->p->graph;
    if (e->kind != QC_EXPR_OP) return 0;
    const qc_id v = qc_template_quantizes(m, e);
    if (v && !e->qparams.product && e->qparams.first == name) {
        if (!qc_constant_of(g, v)) return quantizer_of(s, v, st);
        if (e->qparams.axis_kind != QC_AXIS_TENSOR)
            return weight_quantizer(s, v, qc_template_axis(m, g, &e->qparams, taker), st);
        const struct qc_qparams def = of_class(s, s->p->class_of[v], constant_name(s, v, USE_DATA, st));
        return def.name ? qc_graph_add_quantizer(s->r->to, &def, st) : 0;
    }
    for (unsigned i = 0; i < e->arg_count; i++) {
        qc_id found = qparams_by_name(s, m, e->args[i], e, name, st);
        if (found || st->code != QC_OK) return found;
    }
    return 0;
}

static qc_id resolve_qparams(void *user, const struct qc_match *m, const struct qc_qparams_expr *e, qc_id value,
                             qc_id capture, struct qc_status *st)
{
    struct simulation *s = user;
    qc_id first = qparams_by_name(s, m, m->rule->give, NULL, e->first, st);
    if (!first && st->code == QC_OK && !e->product)
        first = quantizer_of(s, m->root, st); /* the result's own: dq(Add(...) : Z) */
    if (!first && st->code == QC_OK)
        return qc_fail(st, QC_BAD_INPUT, "pattern '%s': nothing in the template is quantized to '%s'", m->rule->name,
                       m->rule->qparams_of[e->first]);
    if (!first || !e->product) return first;
    qc_id second = qparams_by_name(s, m, m->rule->give, NULL, e->second, st);
    if (!second)
        return qc_fail(st, QC_BAD_INPUT, "pattern '%s': nothing in the template is quantized to '%s'", m->rule->name,
                       m->rule->qparams_of[e->second]);
    return qc_graph_add_product(s->r->to, first, second, st);
}

static int quantizer_axis(const struct simulation *s, qc_id value)
{
    return s->p->channel_axis[value] < 0 ? 0 : s->p->channel_axis[value];
}

static int resolve_axis(void *user, const struct qc_match *m, qc_id capture)
{
    return quantizer_axis(user, capture ? capture : m->root);
}

/* Quantizes a value that has qparams: all later users read its quantized form. Floats of few bits are stored for
   products alone, so a float op that also reads the value need not lose precision. */
static void simulate_value(struct simulation *s, qc_id old, struct qc_status *st)
{
    struct qc_graph *to = s->r->to;
    s->computed[old] = s->r->map[old];
    if (s->p->cached[old]) {
        /* Round a cache to its own type: outputs have it, and readers may quantize it again. */
        const int heads = s->p->cached[old] - 2;
        char label[QC_LABEL];
        const struct qc_qparams def = {.name = qc_arena_printf(to->arena, st, "%s in the cache",
                                                               whole_name(label, s->p->graph, old)),
                                       .dtype = s->p->options.cache,
                                       .symmetry = QC_SYMMETRIC,
                                       .in_place = true,
                                       .power_of_two = s->p->options.target->power_of_two,
                                       .per_channel = heads >= 0};
        const qc_id cache = def.name ? qc_graph_add_quantizer(to, &def, st) : 0, whole = s->r->map[old];
        if (!cache || !qc_graph_set_observed(to, cache, 1, &whole, st)) return;
        const qc_id stored = qc_graph_quantize(to, whole, cache, heads < 0 ? 0 : heads, st);
        s->cached[old] = s->r->map[old] = qc_graph_dequantize(to, stored, st);
    }
    if (!s->p->requested[old] || qc_is_small_float(qc_partition_scheme(s->p, s->p->class_of[old], false).dtype)) return;
    const qc_id v = s->r->map[old], qparams = quantizer_of(s, old, st);
    const struct qc_node *n = qc_node_of(to, v);
    if (n && n->op == QC_OP_Dequantize && to->values[n->inputs[0]].type.qparams == qparams) return;
    s->r->map[old] = qc_graph_dequantize(to, qc_graph_quantize(to, v, qparams, quantizer_axis(s, old), st), st);
}

/* Rebuilds a node that stays in float. It alone reads the dequantized values of its weight. */
static void rebuild_float(struct simulation *s, qc_id node, struct qc_status *st)
{
    const qc_id weight = s->p->weight_of[node], before = s->r->map[weight];
    if (weight) {
        const qc_id real = qc_rebuild_value(s->r, weight, st),
                    qparams = weight_quantizer(s, weight, s->p->weight_axis[node], st);
        const int axis = s->r->to->qparams_of[qparams].block ? block_axis(s, weight) : s->p->weight_axis[node];
        s->r->map[weight] = qc_graph_dequantize(s->r->to, qc_graph_quantize(s->r->to, real, qparams, axis, st), st);
    }
    qc_rebuild_node(s->r, node, st);
    s->r->map[weight] = before;
}

static void set_observed(struct simulation *s, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = s->p->graph;
    const size_t most = g->value_count + s->r->to->value_count + 1; /* with the constants that are copied here */
    qc_id *list = QC_NEW_ARRAY(a, qc_id, most, st);
    bool *listed = QC_NEW_ARRAY(a, bool, most, st);
    for (qc_id class = 1; st->code == QC_OK && class <= g->value_count; class ++) {
        size_t count = 0;
        if (!s->quantizer[class]) continue;
        for (qc_id v = class; v; v = s->next[v]) {
            const struct qc_use_list readers = qc_readers(&s->uses, v);
            for (size_t i = 0; s->chosen[v] && i < readers.count; i++) { /* results of maxima in other classes */
                const struct qc_node *n = &g->nodes[readers.of[i].node];
                const qc_id result = s->computed[n->outputs];
                if (!qc_is_extreme(n->op) || !result || s->p->class_of[n->outputs] == class || listed[result]) continue;
                listed[result] = true;
                list[count++] = result;
            }
            if (s->hidden[v]) continue;
            const qc_id observed = qc_constant_of(g, v) ? qc_rebuild_value(s->r, v, st) : s->computed[v];
            if (observed) list[count++] = observed;
        }
        qc_graph_set_observed(s->r->to, s->quantizer[class], count, list, st);
        for (size_t i = 0; i < count; i++) listed[list[i]] = false;
    }
    for (qc_id id = 1; st->code == QC_OK && id <= s->r->to->qparams_count; id++) { /* constants: found by name */
        const struct qc_qparams *qparams = &s->r->to->qparams_of[id];
        qc_id v = qparams->kind == QC_QPARAMS_QUANTIZER && !qparams->observed_count && !qparams->is_weight
                      ? qc_graph_find_value(s->r->to, qparams->name)
                      : 0;
        if (qc_constant_of(s->r->to, v)) qc_graph_set_observed(s->r->to, id, 1, &v, st);
    }
}

bool qc_simulate(struct qc_graph **out, const struct qc_partition *p, struct qc_status *st)
{
    const struct qc_graph *g = p->graph;
    QC_ARENA_SCOPE *a = qc_arena_new();
    QC_REBUILD_SCOPE r = {0};
    struct simulation s = {.p = p,
                           .r = &r,
                           .chosen = qc_read_by_extremes(g, p->class_of, a, st),
                           .quantizer = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st),
                           .cached = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st),
                           .computed = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st),
                           .hidden = QC_NEW_ARRAY(a, bool, g->value_count + 1, st),
                           .next = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st),
                           .constant_use = QC_NEW_ARRAY(a, int, g->value_count + 1, st)};
    qc_id *outputs = QC_NEW_ARRAY(a, qc_id, g->output_count + 1, st),
          *last = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st); /* by class */
    if (st->code != QC_OK || !qc_uses_of(&s.uses, g, a, st) || !qc_rebuild_begin(&r, g, st)) return false;
    r.to->simulated = true;
    for (qc_id v = 1; v <= g->value_count; v++) {
        if (last[p->class_of[v]]) s.next[last[p->class_of[v]]] = v;
        last[p->class_of[v]] = v;
    }
    find_hidden(&s);
    for (size_t i = 0; i < g->input_count; i++) simulate_value(&s, g->inputs[i].value, st);
    QC_EACH_NODE(n, g) {
        if (!p->matches.live[n->id] || st->code != QC_OK) continue;
        struct qc_build b = {.rebuild = &r,
                             .match = p->matches.at[n->id],
                             .qparams = resolve_qparams,
                             .axis = resolve_axis,
                             .weight_axis = block_axis,
                             .user = &s,
                             .weights_only = p->weights_only[n->id],
                             .real_product = p->real_product[n->id]};
        if (b.match)
            qc_rebuild_map(&r, n, qc_build_template(&b, st)); /* the outermost op is the same */
        else
            rebuild_float(&s, n->id, st);
        for (unsigned k = 0; k < n->output_count; k++) simulate_value(&s, n->outputs + k, st);
    }
    set_observed(&s, a, st);
    limit_pairs(r.to, &p->options);
    for (size_t i = 0; i < g->output_count; i++) {
        const qc_id v = g->outputs[i].value; /* an input that is also an output passes through unchanged */
        outputs[i] = s.cached[v]                           ? s.cached[v]
                     : g->values[v].kind == QC_VALUE_INPUT ? s.computed[v]
                                                           : qc_rebuild_value(&r, v, st);
    }
    return qc_types_check_products(r.to, st) && qc_rebuild_finish_with(out, &r, outputs, st);
}
