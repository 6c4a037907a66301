// SPDX-License-Identifier: Apache-2.0
#include <stdlib.h>

#include "base/union_find.h"
#include "calib/metrics/sensitivity_parts.h"
#include "calib/weights/round_weights_parts.h"
#include "rewrite/passes/centre.h"

/* Returns true for the Dequantize of a weight-only quantized constant. */
static bool weight_alone(const struct qc_graph *g, const struct qc_node *n)
{
    return n->op == QC_OP_Dequantize && qc_quantized_constant(g, n->inputs[0]);
}

static void add_cut_quantizer(struct qc_cut_layer *l, qc_id *quantizers, const struct qc_graph *g, qc_id value)
{
    const qc_id s = value ? g->values[value].type.qparams : QC_REAL;
    if (s == QC_REAL || g->qparams_of[s].kind != QC_QPARAMS_QUANTIZER || g->qparams_of[s].state != QC_QPARAMS_BOUND)
        return;
    for (size_t i = 0; i < l->quantizer_count; i++)
        if (quantizers[i] == s) return;
    quantizers[l->quantizer_count++] = s;
    l->has_weights = l->has_weights || g->qparams_of[s].is_weight;
}

/* Returns the quantized input, in floats of few bits, of a real product that reads this weight; 0: it has none. */
static qc_id small_float_input(const struct qc_graph *g, const struct qc_use *weight)
{
    const struct qc_node *q = weight->input == 1 ? qc_small_float_input(g, &g->nodes[weight->node]) : NULL;
    return q ? q->outputs : 0;
}

static bool collect_quantizers(struct qc_cut_layer *l, const qc_id *next, const struct qc_uses *u, struct qc_arena *a,
                               struct qc_status *st)
{
    const struct qc_graph *g = u->graph;
    size_t room = 0;
    for (qc_id id = l->first; id; id = next[id])
        room += g->nodes[id].input_count + g->nodes[id].output_count + qc_readers(u, g->nodes[id].outputs).count;
    qc_id *quantizers = QC_NEW_ARRAY(a, qc_id, room, st);
    if (!quantizers) return false;
    for (qc_id id = l->first; id; id = next[id]) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned i = 0; i < n->input_count; i++) add_cut_quantizer(l, quantizers, g, n->inputs[i]);
        for (unsigned i = 0; i < n->output_count; i++) add_cut_quantizer(l, quantizers, g, n->outputs + i);
        const struct qc_use_list readers = qc_readers(u, n->outputs);
        for (size_t i = 0; weight_alone(g, n) && i < readers.count; i++)
            add_cut_quantizer(l, quantizers, g, small_float_input(g, &readers.of[i]));
    }
    l->quantizers = quantizers;
    return true;
}

static void touch(qc_id *touched, const struct qc_graph *g, qc_id value, qc_id node)
{
    const qc_id s = value ? g->values[value].type.qparams : QC_REAL;
    if (s != QC_REAL && !g->qparams_of[s].is_weight && !touched[s]) touched[s] = node;
}

/* Finds, for each quantizer that is not of weights, the first node that reads or makes its values; 0: none. */
static qc_id *find_touched(const struct qc_graph *g, struct qc_arena *a, struct qc_status *st)
{
    qc_id *touched = QC_NEW_ARRAY(a, qc_id, g->qparams_count + 1, st);
    for (qc_id id = 1; touched && id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        for (unsigned i = 0; i < n->input_count; i++) touch(touched, g, n->inputs[i], id);
        for (unsigned i = 0; i < n->output_count; i++) touch(touched, g, n->outputs + i, id);
    }
    return touched;
}

static int by_cut(const void *x, const void *y)
{
    const struct qc_cut_layer *a = x, *b = y;
    if (a->cut != b->cut) return a->cut < b->cut ? -1 : 1;
    return (a->first > b->first) - (a->first < b->first);
}

/* Finds the quantized constants of the rounded graph, by quantizer. */
static bool find_rounded(struct qc_cut_layers *out, struct qc_arena *a, struct qc_status *st)
{
    const struct qc_graph *g = out->rounded;
    if (!g) return true;
    out->rounded_weights = QC_NEW_ARRAY(a, qc_id, g->qparams_count + 1, st);
    out->next_weight = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    if (!out->rounded_weights || !out->next_weight) return false;
    for (qc_id v = 1; v <= g->value_count; v++) {
        if (!qc_quantized_constant(g, v)) continue;
        qc_id *first = &out->rounded_weights[g->values[v].type.qparams];
        out->next_weight[v] = *first;
        *first = v;
    }
    return qc_uses_of(&out->rounded_uses, g, a, st);
}

bool qc_cut_layers_find(struct qc_cut_layers *out, const struct qc_graph *g, const struct qc_graph *rounded,
                        struct qc_arena *a, struct qc_status *st)
{
    qc_id *first = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st);
    const qc_id *touched = find_touched(g, a, st);
    *out = (struct qc_cut_layers){.rounded = rounded,
                                  .next = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st),
                                  .of_node = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st),
                                  .layers = QC_NEW_ARRAY(a, struct qc_cut_layer, g->node_count + 1, st)};
    if (!first || !touched || !out->next || !out->of_node || !out->layers || !qc_uses_of(&out->uses, g, a, st) ||
        !find_rounded(out, a, st))
        return false;
    /* Find the nodes of layers. next[id]: the next node of the same layer, or 0. first[id]: id if it is a layer's
       first node, else 0. */
    qc_id *parent = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st);
    qc_id *last = QC_NEW_ARRAY(a, qc_id, g->node_count + 1, st);
    if (!parent || !last) return false;
    for (qc_id id = 1; id <= g->node_count; id++) {
        const struct qc_node *n = &g->nodes[id];
        bool computes = weight_alone(g, n);
        for (unsigned i = 0; !qc_op_is_conversion(n->op) && i < n->input_count; i++)
            computes = computes || (n->inputs[i] && g->values[n->inputs[i]].type.qparams != QC_REAL);
        if (!computes) continue;
        parent[id] = id;
        for (unsigned i = 0; i < n->input_count; i++) {
            const qc_id qparams = n->inputs[i] ? g->values[n->inputs[i]].type.qparams : QC_REAL;
            const qc_id made =
                qparams != QC_REAL && g->qparams_of[qparams].kind == QC_QPARAMS_PRODUCT && qc_node_of(g, n->inputs[i])
                    ? g->values[n->inputs[i]].node
                    : 0;
            if (made && parent[made]) qc_union_join(parent, id, made);
        }
    }
    for (qc_id id = 1; id <= g->node_count; id++) {
        const qc_id root = parent[id] ? qc_union_root(parent, id) : 0; /* the smallest id of the layer */
        if (!root) continue;
        if (root == id)
            first[id] = id;
        else
            out->next[last[root]] = id;
        last[root] = id;
    }
    for (qc_id id = 1; id <= g->node_count; id++) {
        struct qc_cut_layer l = {.first = id, .cut = id};
        if (!first[id]) continue;
        if (!collect_quantizers(&l, out->next, &out->uses, a, st)) return false;
        /* Other nodes may read a quantizer's values before the layer does. */
        for (size_t i = 0; i < l.quantizer_count; i++) {
            const qc_id earlier = touched[l.quantizers[i]];
            if (earlier && earlier < l.cut) l.cut = earlier;
        }
        if (l.quantizer_count) out->layers[out->count++] = l;
    }
    if (out->count) qsort(out->layers, out->count, sizeof *out->layers, by_cut);
    for (size_t i = 0; i < out->count; i++)
        for (qc_id id = out->layers[i].first; id; id = out->next[id]) out->of_node[id] = (qc_id)i + 1;
    return true;
}

bool qc_cut_values(qc_id **values, size_t *count, const struct qc_graph *g, qc_id at, struct qc_arena *a,
                   struct qc_status *st)
{
    bool *needed = QC_NEW_ARRAY(a, bool, g->value_count + 1, st);
    qc_id *list = QC_NEW_ARRAY(a, qc_id, g->value_count + 1, st);
    if (!needed || !list) return false;
    for (size_t i = 0; i < g->output_count; i++) needed[g->outputs[i].value] = true;
    for (qc_id id = (qc_id)g->node_count; id >= 1; id--) {
        const struct qc_node *n = &g->nodes[id];
        bool copied = false; /* affine values do not cross the cut: they are computed again after it */
        for (unsigned k = 0; k < n->output_count; k++)
            copied = copied || (needed[n->outputs + k] && (id >= at || g->values[n->outputs].type.qparams != QC_REAL));
        if (!copied) continue;
        for (unsigned k = 0; k < n->output_count; k++) needed[n->outputs + k] = false;
        for (unsigned i = 0; i < n->input_count; i++)
            if (n->inputs[i]) needed[n->inputs[i]] = true;
    }
    *count = 0;
    for (qc_id v = 1; v <= g->value_count; v++)
        if (needed[v] && g->values[v].kind != QC_VALUE_CONSTANT) list[(*count)++] = v;
    *values = list;
    return true;
}

static bool begin_cut_part(struct qc_rebuild *r, struct qc_cut_part *out, const struct qc_graph *g,
                           const struct qc_cut *from, struct qc_arena *a, struct qc_status *st)
{
    char name[QC_LABEL];
    out->inputs = QC_NEW_ARRAY(a, qc_id, g->input_count + from->count, st);
    if (!out->inputs || !qc_rebuild_begin(r, g, st)) return false;
    for (size_t i = 0; i < g->input_count; i++) out->inputs[i] = g->inputs[i].value;
    out->input_count = g->input_count;
    for (size_t i = 0; i < from->count; i++) {
        const qc_id id = from->values[i];
        const struct qc_value *v = &g->values[id];
        struct qc_tensor *known = from->known ? from->known[id] : NULL;
        if (v->kind == QC_VALUE_INPUT) continue;
        qc_text(name, sizeof name, "cut %zu", i);
        r->map[id] = known ? qc_graph_add_constant(r->to, name, known, st)
                           : qc_graph_add_input(r->to, name, v->type.dtype, &v->type.shape, st);
        if (!r->map[id]) return false;
        if (!known) out->inputs[out->input_count++] = id;
    }
    return true;
}

bool qc_cut_between(struct qc_cut_part *out, const struct qc_graph *g, const struct qc_cut *from, size_t to_count,
                    const qc_id *to, struct qc_arena *a, struct qc_status *st)
{
    struct qc_rebuild r = {0};
    char name[QC_LABEL];
    bool ok = begin_cut_part(&r, out, g, from, a, st);
    for (size_t i = 0; ok && i < to_count; i++) {
        const qc_id v = qc_rebuild_value(&r, to[i], st);
        qc_text(name, sizeof name, "cut %zu", i);
        ok = v && qc_graph_add_output(r.to, name, v, st);
    }
    for (qc_id s = 1; ok && s <= r.to->qparams_count; s++)
        if (r.to->qparams_of[s].kind == QC_QPARAMS_QUANTIZER) qc_graph_turn_off_quantizer(r.to, s);
    if (ok) {
        out->graph = r.to;
        r.to = NULL;
    }
    qc_rebuild_free(&r);
    return ok;
}

/* Adds the readers of v, as their second input, that correspond to n. */
static void find_like(const struct qc_node **found, size_t *count, const struct qc_cut_layers *all, qc_id v,
                      const struct qc_graph *g, const struct qc_node *n)
{
    const struct qc_use_list readers = qc_readers(&all->rounded_uses, v);
    for (size_t i = 0; i < readers.count; i++) {
        const struct qc_node *m = &all->rounded->nodes[readers.of[i].node];
        if (readers.of[i].input != 1 || (m->op != n->op && m->op != qc_round_weights_biased_op(g, n))) continue;
        *found = m;
        ++*count;
    }
}

/* Returns the node of the rounded graph with the same weight; NULL unless there is exactly one. A rounded weight has
   one reader. */
static const struct qc_node *counterpart(const struct qc_graph *g, const struct qc_node *n,
                                         const struct qc_cut_layers *all)
{
    const struct qc_graph *rounded = all->rounded;
    const qc_id w = rounded && qc_op_info(n->op)->affine == QC_AFFINE_PRODUCT ? qc_second_moments_weight(g, n) : 0;
    const struct qc_node *found = NULL;
    size_t count = 0;
    for (qc_id v = w ? all->rounded_weights[g->values[w].type.qparams] : 0; v; v = all->next_weight[v]) {
        find_like(&found, &count, all, v, g, n);
        const struct qc_use_list readers = qc_readers(&all->rounded_uses, v); /* weight-only quantization: */
        for (size_t i = 0; i < readers.count; i++)
            if (rounded->nodes[readers.of[i].node].op == QC_OP_Dequantize)
                find_like(&found, &count, all, rounded->nodes[readers.of[i].node].outputs, g, n);
    }
    return count == 1 ? found : NULL;
}

/* Copies a quantized constant: a weight in integers with its scales, which rounding may have changed, or a bias with
   its Quantize. */
static qc_id copy_constant(struct qc_rebuild *r, const struct qc_graph *from, qc_id quantized, struct qc_status *st)
{
    const struct qc_type *t = &from->values[quantized].type;
    const struct qc_value *c = &from->values[qc_quantized_constant(from, quantized)];
    const struct qc_qparams *q = &from->qparams_of[t->qparams];
    if (!c->type.qparams)
        return qc_graph_quantize(r->to, qc_graph_add_constant(r->to, c->name, c->constant, st), t->qparams, t->axis,
                                 st);
    if (!qc_graph_bind_quantizer(r->to, t->qparams, q->count, q->scale, q->zero_point, st)) return 0;
    return qc_graph_add_affine_constant(r->to, c->name, c->constant, t->qparams, t->axis, st);
}

/* Copies a weight-only quantized weight, or its bias; *out is 0 if the input is neither. */
static bool copy_real_input(qc_id *out, struct qc_rebuild *r, const struct qc_graph *rounded,
                            const struct qc_node *with, unsigned i, struct qc_status *st)
{
    const qc_id v = i && i < with->input_count ? with->inputs[i] : 0;
    const struct qc_node *n = v ? qc_node_of(rounded, v) : NULL;
    const struct qc_tensor *t = v && rounded->values[v].type.qparams == QC_REAL ? qc_constant_of(rounded, v) : NULL;
    *out = 0;
    if (n && weight_alone(rounded, n))
        return (*out = qc_graph_dequantize(r->to, copy_constant(r, rounded, n->inputs[0], st), st)) != 0;
    return !t || (*out = qc_graph_add_constant(r->to, rounded->values[v].name, rounded->values[v].constant, st));
}

/* Copies a node with the constants of its counterpart. */
static bool copy_node_rounded(struct qc_rebuild *r, const struct qc_node *n, const struct qc_graph *rounded,
                              const struct qc_node *with, struct qc_status *st)
{
    const struct qc_type *type = &r->from->values[n->outputs].type;
    qc_id inputs[3] = {0};
    unsigned count = n->input_count;
    for (unsigned i = 0; i < 3; i++) {
        const qc_id v = i && i < with->input_count ? with->inputs[i] : 0;
        if (qc_quantized_constant(rounded, v) ? !(inputs[i] = copy_constant(r, rounded, v, st))
                                              : !copy_real_input(&inputs[i], r, rounded, with, i, st))
            return false;
        if (inputs[i]) {
            count = i + 1 > count ? i + 1 : count;
        } else if (i < n->input_count && n->inputs[i] && !(inputs[i] = qc_rebuild_value(r, n->inputs[i], st))) {
            return false;
        }
    }
    const struct qc_node_def other = {
        .op = with->op, .input_count = count, .inputs = inputs, .qparams = type->qparams, .axis = type->axis};
    return (r->map[n->outputs] = qc_graph_add_like(r->to, r->from, n, &other, st)) != 0;
}

/* Copies a node of a layer with its rounded constants. */
static bool copy_rounded(struct qc_rebuild *r, const struct qc_cut_layers *all, qc_id id, struct qc_status *st)
{
    const struct qc_graph *g = r->from;
    const struct qc_node *n = &g->nodes[id];
    const bool alone = weight_alone(g, n);
    const qc_id reader = alone ? qc_only_reader(&all->uses, n->outputs) : id;
    const struct qc_node *with = reader ? counterpart(g, &g->nodes[reader], all) : NULL;
    if (with) {
        if (r->map[g->nodes[reader].outputs]) return true;
        if (!copy_node_rounded(r, &g->nodes[reader], all->rounded, with, st)) return false;
        /* the corrected bias after the product, if the product's operator takes none */
        const qc_id behind = qc_bias_after_matmul(&all->uses, reader, true);
        const struct qc_tensor *bias =
            behind && !r->map[g->nodes[behind].outputs]
                ? qc_round_weights_addend(&all->rounded_uses, (qc_id)(with - all->rounded->nodes))
                : NULL;
        struct qc_tensor *t = bias ? qc_tensor_of(QC_F32, &bias->shape, bias->data, st) : NULL;
        const bool ok = !bias || (t && qc_round_weights_copy_behind(r, &all->uses, reader, behind, t, st));
        qc_tensor_unref(t);
        return ok;
    }
    const qc_id s = alone && all->rounded ? g->values[n->inputs[0]].type.qparams : QC_REAL,
                v = s ? all->rounded_weights[s] : 0; /* of a recurrent operator, for example */
    if (!v || all->next_weight[v] || r->map[n->outputs]) return true;
    const qc_id q = copy_constant(r, all->rounded, v, st);
    return (r->map[n->outputs] = qc_graph_dequantize(r->to, q, st)) != 0;
}

/* Makes the products of the layer whose input has floats of few bits. Products of other layers and float ops that are
   made afterwards read that input before it is rounded. */
static bool copy_small_float_readers(struct qc_rebuild *r, const struct qc_cut_layers *all, size_t layer,
                                     struct qc_status *st)
{
    const struct qc_graph *g = r->from;
    for (unsigned made = 0; made < 2; made++)
        for (qc_id id = all->layers[layer].first; id; id = all->next[id]) {
            const struct qc_use_list readers = qc_readers(&all->uses, g->nodes[id].outputs);
            for (size_t i = 0; weight_alone(g, &g->nodes[id]) && i < readers.count; i++) {
                const struct qc_node *n = &g->nodes[readers.of[i].node];
                const qc_id input = small_float_input(g, &readers.of[i]);
                if (!input) continue;
                if (!made && !qc_rebuild_value(r, n->outputs, st)) return false;
                if (made && !(r->map[n->inputs[0]] = qc_rebuild_value(r, qc_node_of(g, input)->inputs[0], st)))
                    return false;
            }
        }
    return true;
}

bool qc_cut_behind(struct qc_cut_part *out, const struct qc_graph *g, const struct qc_cut *from,
                   const struct qc_cut_layers *all, size_t layer, enum qc_cut_quantizers which, struct qc_arena *a,
                   struct qc_status *st)
{
    struct qc_rebuild r = {0};
    const struct qc_cut_layer *l = &all->layers[layer];
    bool *on = QC_NEW_ARRAY(a, bool, g->qparams_count + 1, st);
    bool ok = on && begin_cut_part(&r, out, g, from, a, st);
    for (qc_id id = l->first; ok && id; id = all->next[id]) ok = copy_rounded(&r, all, id, st);
    ok = ok && copy_small_float_readers(&r, all, layer, st) && qc_rebuild_finish(&out->graph, &r, st);
    for (size_t i = 0; ok && i < l->quantizer_count; i++)
        on[l->quantizers[i]] = which == QC_CUT_ALL || g->qparams_of[l->quantizers[i]].is_weight;
    for (qc_id s = 1; ok && s <= g->qparams_count; s++)
        if (g->qparams_of[s].kind == QC_QPARAMS_QUANTIZER && !on[s]) qc_graph_turn_off_quantizer(out->graph, s);
    qc_rebuild_free(&r);
    return ok;
}

static bool is_off(const struct qc_graph *g, qc_id v)
{
    const qc_id s = g->values[v].type.qparams;
    return s != QC_REAL && g->qparams_of[s].state == QC_QPARAMS_OFF;
}

/* Copies a node as one on real values; its result is quantized if its quantizer is on. */
static bool copy_real(struct qc_rebuild *r, qc_id id, struct qc_status *st)
{
    const struct qc_graph *g = r->from;
    const struct qc_node *n = &g->nodes[id];
    QC_ARENA_SCOPE *a = qc_arena_new();
    qc_id *inputs = a ? QC_NEW_ARRAY(a, qc_id, n->input_count, st) : NULL, made;
    if (!inputs) return qc_fail_memory(st, 1);
    for (unsigned i = 0; i < n->input_count; i++) {
        if (!n->inputs[i]) continue;
        if (!(inputs[i] = qc_rebuild_value(r, n->inputs[i], st))) return false;
        if (r->to->values[inputs[i]].type.qparams != QC_REAL &&
            !(inputs[i] = qc_graph_dequantize(r->to, inputs[i], st)))
            return false;
    }
    if (n->op == QC_OP_Quantize || n->op == QC_OP_Dequantize) return (r->map[n->outputs] = inputs[0]) != 0;
    const struct qc_node_def with = {.op = n->op, .input_count = n->input_count, .inputs = inputs, .qparams = QC_REAL};
    if (!(made = qc_graph_add_like(r->to, g, n, &with, st))) return false;
    for (unsigned k = 0; k < n->output_count; k++) {
        const struct qc_type *type = &g->values[n->outputs + k].type;
        const qc_id v = made + k;
        r->map[n->outputs + k] = v;
        if (type->qparams != QC_REAL && !is_off(g, n->outputs + k) &&
            !(r->map[n->outputs + k] = qc_graph_quantize(r->to, v, type->qparams, type->axis, st)))
            return false;
    }
    return true;
}

bool qc_cut_alone(struct qc_graph **out, const struct qc_graph *g, const struct qc_cut_layers *all, size_t layer,
                  struct qc_arena *a, struct qc_status *st)
{
    struct qc_cut_part part = {.graph = NULL};
    struct qc_rebuild r;
    bool ok = qc_cut_behind(&part, g, &(struct qc_cut){.count = 0}, all, layer, QC_CUT_ALL, a, st);
    const struct qc_graph *whole = part.graph;
    if (ok) { /* without the quantizers that are off */
        ok = qc_rebuild_begin(&r, whole, st);
        for (qc_id id = 1; ok && id <= whole->node_count; id++) {
            const struct qc_node *n = &whole->nodes[id];
            bool off = is_off(whole, n->outputs);
            for (unsigned i = 0; !off && i < n->input_count;
                 i++) { /* an operand is real in the copy, but affine here */
                const qc_id v = n->inputs[i];
                off = v && whole->values[v].type.qparams != QC_REAL && r.map[v] &&
                      r.to->values[r.map[v]].type.qparams == QC_REAL;
            }
            ok = off ? copy_real(&r, id, st) : qc_rebuild_node(&r, id, st) != 0;
        }
        ok = ok && qc_rebuild_finish(out, &r, st);
        qc_rebuild_free(&r);
    }
    qc_graph_free(part.graph);
    return ok;
}
